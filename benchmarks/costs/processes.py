"""Processes that wait to be asked, and what the kernel knows of a job and of those beside it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks.beside import job_environment


class Asked:
    """A process that says JSON, a value a line, and goes on at each line it is sent. Other lines are overheard."""

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True  # an agent may be writing what is left of a job that was killed
        )
        self._errors = Path(self._folder.name) / "stderr"
        self._command = [sys.executable, "-m", module, *arguments]
        self.process = subprocess.Popen(
            self._command,
            env=job_environment(TMPDIR=self._folder.name, WANDB_SILENT="true", **environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.open("wb"),
            text=True,
        )

    def hear(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                return json.loads(line)
        said = self._errors.read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise RuntimeError(f"{self._command} ended with status {self.process.wait()}: {said}")

    def ask(self, what: object = "") -> Any:
        """Send a line, and what it answers."""
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)
        return self.hear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError), self.process:
            self.process.kill()
        self._folder.cleanup()


def answer(value: Any) -> None:
    """In such a process: say a value."""
    print(json.dumps(value), flush=True)


def agents_of(pid: int) -> list[psutil.Process]:
    """The agent is no child of the job, and names the job in its command."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if f"job={pid}" in process.cmdline():
                found.append(process)
    return found


def family(pid: int) -> list[psutil.Process]:
    """A job, and what its tool runs beside it now: jaxobs's agent, which is no child, or children."""
    job = psutil.Process(pid)
    return [job, *job.children(recursive=True), *agents_of(pid)]


def own_and_beside(
    processes: Sequence[psutil.Process], figure: Callable[[psutil.Process], float]
) -> tuple[float, float]:
    """A figure of the first of them, and of the others together, but those that are gone."""
    beside = 0.0
    for process in processes[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            beside += figure(process)
    return figure(processes[0]), beside
