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
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.beside import without_settings
from benchmarks.gpu_check.findings import Findings, said_in
from benchmarks.gpu_check.machine import ROOT, Machine
from benchmarks.truths import Figure, text_of


class Check(NamedTuple):
    """A function `NAME(told)` in a file of `checks/`; `seconds` is estimated for an H200. Its deadline stops it."""

    name: str
    file: str
    title: str
    seconds: float
    deadline: float


CHECKS = (
    Check("device", "device", "What the device is", 15, 60),
    Check("training", "training", "A transformer step in bfloat16, rematerialised and donated", 85, 160),
    Check(
        "products", "rooflines", "Products, copies and softmax against long runs by the wall clock", 60, 120
    ),
    Check("attention", "rooflines", "Attention, plain and cuDNN's, forward and backward", 45, 100),
    Check("readings", "readings", "NVML against nvidia-smi, device memory against JAX", 40, 80),
    Check("unchanged", "unchanged", "`jaxobs run` on a script as it is, and how long exits take", 80, 150),
    Check("labels", "labels", "Loops built so that their label is known", 110, 200),
    Check("out_of_memory", "out_of_memory", "A real RESOURCE_EXHAUSTED and its report", 30, 75),
    Check("paired", "paired", "Step time with and without jaxobs, in turns", 70, 130),
    Check("calibration", "calibration", "`jaxobs calibrate` against the datasheet", 60, 190),
    Check("labels_without_command_buffers", "labels", "The same loops without command buffers", 60, 120),
)
"""In the order of their worth. A check is left out where less than half of its seconds is left."""


LOG = "log.txt"


@dataclass
class Outcome:
    """What became of a check; `reason` says why it was not run, was stopped, or failed."""

    check: Check
    seconds: float = 0.0
    reason: str = ""
    failed: bool = False
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, verdict: str) -> int:
        """How many of its figures are so."""
        return sum(figure.verdict == verdict for figure in self.figures)

    @property
    def wrong(self) -> list[str]:
        """Its figures that are, with what was found."""
        wrong = (one for one in self.figures if one.verdict == "WRONG")
        return [f"{one.name}: {text_of(one.found, one.unit)}" for one in wrong]


def run_all(
    checks: Sequence[Check], machine: Machine, minutes: float, folder: Path, began: float
) -> Iterator[Outcome]:
    """Outcomes as they come. `began`: when the minutes began to count, by `time.monotonic()`."""
    for check in checks:
        left = began + minutes * 60 - time.monotonic()
        if left < check.seconds / 2:
            reason = f"{max(0.0, left):.0f} s were left, and it takes about {check.seconds:.0f} s"
            yield Outcome(check, reason=reason)
            continue
        yield run_one(check, machine, folder / check.name, min(check.deadline, left))


def run_one(check: Check, machine: Machine, folder: Path, deadline: float) -> Outcome:
    """Run one check for at most `deadline` seconds; what it had said by then counts."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.gpu_check.runner", check.name, str(folder), machine.platform]
    outcome = Outcome(check)
    began = time.monotonic()
    with (folder / LOG).open("wb") as log:
        process = subprocess.Popen(
            [*command, machine.device_kind], cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=log,
            stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(deadline)
        except subprocess.TimeoutExpired:
            outcome.reason = f"stopped at its deadline after {deadline:.0f} s"
        else:
            if status:
                outcome.failed = True
                outcome.reason = f"the check itself ended with status {status}: {_last_words(folder / LOG)}"
        finally:
            end_group(process)
    outcome.seconds = time.monotonic() - began
    outcome.figures, outcome.notes = said_in(folder)
    return outcome


def environment() -> dict[str, str]:
    """That of a check: settings of jaxobs and OpenTelemetry are the defaults, so that it is known what ran.

    The port is any free one. TensorFlow's and XLA's own variables are the caller's.
    """
    return without_settings() | {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "PYTHONUNBUFFERED": "1"}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End what a check started, and itself. Agents are in sessions of their own and end when their jobs do."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_words(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def main() -> None:
    """Run a check; what it raises ends the process, and its traceback is the end of the log."""
    name, folder, platform, device_kind = sys.argv[1:]
    (check,) = [check for check in CHECKS if check.name == name]
    module = importlib.import_module(f"benchmarks.gpu_check.checks.{check.file}")
    getattr(module, name)(Findings(name, Path(folder), platform, device_kind))


if __name__ == "__main__":
    main()
