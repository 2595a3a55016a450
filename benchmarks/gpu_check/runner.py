"""Runs checks, each in a process of its own with a deadline, within the minutes given."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.beside import without_settings
from benchmarks.gpu_check.figures import Figure, said_in
from benchmarks.gpu_check.machine import ROOT, Machine
from benchmarks.gpu_check.table import Check

LOG = "log.txt"
KEPT_OF_A_LOG = 2**20
"""Bytes from the end: XLA's allocator writes pages when memory runs out."""


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


def run_all(
    checks: Sequence[Check], machine: Machine, minutes: float, folder: Path, began: float
) -> Iterator[Outcome]:
    """Outcomes as they come. `began`: when the minutes began to count, by `time.monotonic()`."""
    for check in checks:
        left = began + minutes * 60 - time.monotonic()
        if left < check.seconds / 2:
            yield Outcome(
                check, reason=f"{max(0.0, left):.0f} s were left, and it takes about {check.seconds:.0f} s"
            )
            continue
        yield run_one(check, machine, folder / check.name, min(check.deadline, left))


def run_one(check: Check, machine: Machine, folder: Path, deadline: float) -> Outcome:
    """Run one check for at most `deadline` seconds; what it had said by then counts."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.gpu_check.worker", check.name, str(folder), machine.platform]
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


def shorten(path: Path) -> None:
    """Keep the end of a log."""
    text = path.read_bytes()
    if len(text) > KEPT_OF_A_LOG:
        path.write_bytes(b"(the beginning is left out)\n" + text[-KEPT_OF_A_LOG:])


def _last_words(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"
