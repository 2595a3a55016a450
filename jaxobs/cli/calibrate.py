"""`jaxobs calibrate`: measure what this machine's default JAX device can do, and keep the result."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from jaxobs.cli import INTERRUPTED, UsageError, say, tell
from jaxobs.cli.console import Parser, bar, seconds_up_to
from jaxobs.cli.terminal import look_of
from jaxobs.hardware.calibration import (
    Calibration,
    NoHomeError,
    cache_directory,
    fastest,
)
from jaxobs.plugin.files import why_not_writable, write_whole
from jaxobs.report.text_table import TextTable, to_text
from jaxobs.vocabulary.units import amount, byte_size

SUMMARY = "measure this machine's peaks: matrix products, bandwidth by working set, vector rates"

DEFAULT_SECONDS = 10.0
MAX_SECONDS = 3600.0
STARTING_SECONDS = 180.0
"""Seconds that the process may take beyond the requested time, to import JAX, start a GPU and compile."""

_CURE = "set JAXOBS_CACHE_DIRECTORY to a writable directory"


class CalibrationFailedError(Exception):
    """The measuring process ended without a result; the message is one line that says why."""


def run(arguments: list[str]) -> int:
    """Measure, show a table and keep the file. Raises UsageError for options it cannot use."""
    options = _options(arguments)
    place = _place()
    try:
        with bar("calibrating") as progress:
            calibration = calibrate_in_process(options.seconds, progress)
    except CalibrationFailedError as error:
        say("jaxobs calibrate", error)
        return 1
    except KeyboardInterrupt:
        say("jaxobs calibrate", "interrupted, nothing was kept")
        return INTERRUPTED
    if options.json:
        print(json.dumps(calibration.to_dict(), indent=1))
    else:
        print(to_text(calibration_parts(calibration), **look_of(sys.stdout)))
    path = place / calibration.file_name
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{json.dumps(calibration.to_dict(), indent=1, allow_nan=False)}\n".encode())
    except OSError as error:
        say("jaxobs calibrate", f"measured, but not kept: {place}: {error.strerror or error}; {_CURE}")
        return 1
    tell(f"kept in {path}")
    if calibration.disturbed:
        tell(
            f"Other processes took {calibration.other_load:.1f} cores meanwhile: these peaks may be too low. "
            "Calibrate again when the machine is quiet."
        )
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = Parser("calibrate", __doc__)
    parser.add_argument(
        "--seconds", type=seconds_up_to(MAX_SECONDS), default=DEFAULT_SECONDS,
        help="time to take (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    return parser.options(arguments)


def _place() -> Path:
    """The directory for the result. Raises UsageError, before anything is measured, if it cannot be written to."""
    try:
        place = cache_directory()
    except NoHomeError as error:
        raise UsageError(str(error)) from None
    reason = why_not_writable(place)
    if reason is not None:
        raise UsageError(f"nothing can be kept in {place}: {reason}; {_CURE}")
    return place


def calibrate_in_process(seconds: float, progress: Callable[[float, str], None]) -> Calibration:
    """Measure in a separate process and return the result without storing it.

    Args:
        seconds: The time to take, s; the process needs some more to start and to compile.
        progress: Called with the share done, 0 to 1, and what is being measured.

    Raises:
        CalibrationFailedError: The process failed, took far too long, or gave no result.
    """
    environment = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}  # leave a GPU's memory to others
    command = [sys.executable, "-m", "jaxobs.measure.calibration", "--seconds", str(seconds)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        complaints: list[str] = []
        reader = threading.Thread(target=complaints.extend, args=(process.stderr,), daemon=True)
        reader.start()
        too_long = threading.Timer(seconds + STARTING_SECONDS, process.kill)
        too_long.start()
        try:
            document = _follow(process, progress)
            status = process.wait()
        finally:
            too_long.cancel()
            process.kill()
        reader.join()
    if document is None:
        last_line = next((line for line in reversed(complaints) if line.strip()), "it said nothing")
        raise CalibrationFailedError(f"the measuring process ended with status {status}: {last_line.strip()}")
    return Calibration.from_dict(document)


def _follow(process: subprocess.Popen[str], progress: Callable[[float, str], None]) -> object:
    """Pass progress on until the output ends. Returns the result, or None if there was none."""
    assert process.stdout is not None
    result: object = None
    for line in process.stdout:
        with contextlib.suppress(ValueError):  # lines that libraries print are ignored
            document = json.loads(line)
            if isinstance(document, dict):
                if "fraction" in document:
                    progress(float(document["fraction"]), str(document.get("title", "")))
                result = document.get("calibration", result)
    return result


def calibration_parts(calibration: Calibration) -> Iterator[TextTable | str]:
    """A calibration as lines and tables."""
    yield (
        f"{calibration.device_kind} on {calibration.processor}, {calibration.cores} cores, "
        f"jaxlib {calibration.jaxlib}, measured for {calibration.seconds:.1f} s"
    )
    table = TextTable(("unit", "element type", "rate", "at size"), left=("element type",))
    for unit, rates, measure, size in (
        ("matrix", fastest(calibration.matrix), "FLOP/s", "{0} × {0}"),
        ("vector", fastest(calibration.vector), "FLOP/s", "{0} elements"),
        ("exp", fastest(calibration.transcendentals), "/s", "{0} elements"),
    ):
        for dtype, rate in rates.items():
            per = measure.replace("FLOP", "OP") if "int" in dtype else measure  # integer work is no FLOP
            table.add(unit, dtype, amount(rate.per_second, per), size.format(rate.size))
    yield from ("", table)
    yield from (f"{left_out.dtype} {left_out.reason}" for left_out in calibration.left_out)
    memory = TextTable(("working set", "copy", "triad"))
    for point in calibration.bandwidth:
        memory.add(
            byte_size(point.working_set_bytes), *(amount(rate, "B/s") for rate in (point.copy, point.triad))
        )
    yield from ("", memory)
