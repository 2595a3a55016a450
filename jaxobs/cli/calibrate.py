"""`jaxobs calibrate`: measure what this machine's default JAX device can do, and keep the result."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from jaxobs.cli import say, tell
from jaxobs.cli.console import Parser, ProcessFailedError, result_of, seconds_up_to
from jaxobs.cli.terminal import look_of
from jaxobs.config import load_settings
from jaxobs.hardware.calibration import Calibration, cache_directory, fastest
from jaxobs.plugin.files import why_not_writable, write_whole
from jaxobs.report.text_table import TextTable, to_text
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.units import amount, byte_size

SUMMARY = "measure this machine's peaks: matrix products, bandwidth by working set, vector rates"

DEFAULT_SECONDS = 10.0
MAX_SECONDS = 3600.0
STARTING_SECONDS = 180.0
"""Seconds that the process may take beyond the requested time, to import JAX, start a GPU and compile."""

_CURE = "set JAXOBS_CACHE_DIRECTORY to a writable directory"


def run(arguments: list[str]) -> int:
    """Measure, show a table and keep the file. Raises InputError for options it cannot use, and OSError."""
    parser = Parser("calibrate", __doc__)
    parser.add_argument(
        "--seconds", type=seconds_up_to(MAX_SECONDS), default=DEFAULT_SECONDS,
        help="time to take (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the result as JSON instead of a table")
    options = parser.options(arguments)
    place = _place()
    tell(f"measuring for {options.seconds:g} s, and some more to start and to compile")
    try:
        calibration = calibrate_in_process(options.seconds)
    except ProcessFailedError as error:
        say("jaxobs calibrate", error)
        return 1
    path, kept = place / calibration.file_name, json.dumps(calibration.to_dict(), indent=1, allow_nan=False)
    print(kept if options.json else to_text(calibration_parts(calibration), **look_of(sys.stdout)))
    place.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{kept}\n".encode())
    tell(f"kept in {path}")
    if calibration.disturbed:
        tell(
            f"Other processes took {calibration.other_load:.1f} cores meanwhile: these peaks may be too low. "
            "Calibrate again when the machine is quiet."
        )
    return 0


def _place() -> Path:
    """The directory for the result. Raises InputError, before anything is measured, if it cannot be written to."""
    if (place := cache_directory(load_settings().cache_directory)) is None:
        raise InputError(f"no home directory is known to keep peaks in: {_CURE}")
    if (reason := why_not_writable(place)) is not None:
        raise InputError(f"nothing can be kept in {place}: {reason}; {_CURE}")
    return place


def calibrate_in_process(seconds: float) -> Calibration:
    """Measure for so long, without keeping the result. Raises ProcessFailedError."""
    found = result_of("jaxobs.measure.calibration", str(seconds), timeout=seconds + STARTING_SECONDS)
    return Calibration.from_dict(found)


def calibration_parts(calibration: Calibration) -> Iterator[TextTable | str]:
    """A calibration as lines and tables."""
    yield (
        f"{calibration.device_kind} on {calibration.processor}, {calibration.cores} cores, "
        f"jaxlib {calibration.jaxlib}, measured for {calibration.seconds:.1f} s"
    )
    table = TextTable(("unit", "element type", "rate", "at size"), left=("element type",))
    for unit, rates, measure, size in (
        ("matrix", calibration.matrix, "FLOP/s", "{0} × {0}"),
        ("vector", calibration.vector, "FLOP/s", "{0} elements"),
        ("exp", calibration.transcendentals, "/s", "{0} elements"),
    ):
        for dtype, rate in fastest(rates).items():
            table.add(unit, dtype, amount(rate.per_second, measure), size.format(rate.size))
    yield from ("", table)
    yield from (f"{left_out.dtype} {left_out.reason}" for left_out in calibration.left_out)
    memory = TextTable(("working set", "rate"))
    for working_set, bandwidth in calibration.memory_by_working_set():
        memory.add(byte_size(working_set), amount(bandwidth, "B/s"))
    yield from ("", memory)
