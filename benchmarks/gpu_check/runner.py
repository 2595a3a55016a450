"""The checks, each of which runs in a process of its own with a deadline, within the minutes given.

`python -m benchmarks.gpu_check.runner NAME FOLDER PLATFORM DEVICE_KIND` is such a process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.beside import ROOT, without_settings
from benchmarks.gpu_check.machine import Machine
from benchmarks.gpu_check.place import Place, said_in, say
from benchmarks.truths import Figure


class Check(NamedTuple):
    """A function `NAME(place)` in a file of `checks/`, which gives figures.

    `seconds` is estimated for an H200. Its deadline stops it.
    """

    name: str
    file: str
    seconds: float
    deadline: float


CHECKS = (
    Check("device", "device", 15, 60),
    Check("training", "training", 85, 160),
    Check("products", "rooflines", 60, 120),
    Check("attention", "rooflines", 45, 100),
    Check("readings", "readings", 40, 80),
    Check("unchanged", "unchanged", 80, 150),
    Check("labels", "labels", 110, 200),
    Check("out_of_memory", "out_of_memory", 30, 75),
    Check("paired", "paired", 70, 130),
    Check("calibration", "calibration", 60, 190),
)
"""In the order of their worth. A check is left out where less than half of its seconds is left."""


LOG = "log.txt"


def run_all(
    checks: Sequence[Check], machine: Machine, minutes: float, folder: Path, began: float
) -> Iterator[tuple[Check, list[Figure]]]:
    """What each said, as it comes. `began`: when the minutes began to count, by `time.monotonic()`."""
    for check in checks:
        left = began + minutes * 60 - time.monotonic()
        if left < check.seconds / 2:
            note = f"{max(0.0, left):.0f} s were left, and it takes about {check.seconds:.0f} s"
            yield check, [Figure("all", note=note)]
        else:
            yield check, run_one(check, machine, folder / check.name, min(check.deadline, left))


def run_one(check: Check, machine: Machine, folder: Path, deadline: float) -> list[Figure]:
    """Run one check for at most `deadline` seconds; what it had said by then counts."""
    folder.mkdir(parents=True)
    # Settings of jaxobs and OpenTelemetry are the defaults, so that it is known what ran.
    environment = without_settings() | {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "PYTHONUNBUFFERED": "1"}
    words = (check.name, str(folder), machine.platform, machine.device_kind)
    began = time.monotonic()
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu_check.runner", *words], cwd=ROOT, env=environment,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(deadline)
        except subprocess.TimeoutExpired:
            end = Figure("the rest", note=f"stopped at its deadline after {deadline:.0f} s")
        else:
            end = Figure(
                "exit status of the check", status, 0, note=_last_words(folder / LOG) if status else ""
            )
        finally:
            # What it started ends with it; agents are in sessions of their own, and end when their jobs do.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return [*said_in(folder), end, Figure("took", time.monotonic() - began, unit="s")]


def _last_words(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def main() -> None:
    """Run a check; what it raises ends the process, and its traceback is the end of the log."""
    name, folder, platform, device_kind = sys.argv[1:]
    (check,) = [check for check in CHECKS if check.name == name]
    module = importlib.import_module(f"benchmarks.gpu_check.checks.{check.file}")
    say(getattr(module, name)(Place(Path(folder), platform, device_kind)), Path(folder))


if __name__ == "__main__":
    main()
