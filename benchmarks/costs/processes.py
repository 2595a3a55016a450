"""Processes that wait to be asked, and what the kernel knows of a job and of those beside it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil

from benchmarks.beside import without_settings


class Asked:
    """A process that says JSON, a value a line, and goes on at each line it is sent. Other lines are overheard."""

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        self._folder = tempfile.TemporaryDirectory(
            ignore_cleanup_errors=True  # an agent may be writing what is left of a job that was killed
        )
        everything = without_settings("WANDB_", "MLFLOW_")
        everything |= {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", "WANDB_SILENT": "true"}
        everything |= {"TMPDIR": self._folder.name, **environment}
        self._errors = Path(self._folder.name) / "stderr"
        self._command = [sys.executable, "-m", module, *arguments]
        self.process = subprocess.Popen(
            self._command,
            env=everything,
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
        self.say(what)
        return self.hear()

    def say(self, what: object = "") -> None:
        assert self.process.stdin is not None
        print(what, file=self.process.stdin, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()


def answer(value: Any) -> None:
    """In such a process: say a value."""
    print(json.dumps(value), flush=True)


class Family(NamedTuple):
    """A job, and what its tool runs beside it: jaxobs's agent, which is no child, or children."""

    job: psutil.Process
    beside: list[psutil.Process]

    def memory(self) -> dict[str, float]:
        """Bytes in memory: `resident` ones, those shared with other processes too, and `unshared` ones.

        The latter would be free without this process.
        """
        return {
            "resident": float(self.job.memory_info().rss),
            "unshared": float(self.job.memory_full_info().uss),
            "resident beside": self._of_those_beside(lambda process: process.memory_info().rss),
            "unshared beside": self._of_those_beside(lambda process: process.memory_full_info().uss),
        }

    def processor_seconds(self) -> tuple[float, float]:
        """Of the job and of those beside it, in user mode and in the kernel, of all threads."""
        return processor_seconds(self.job), self._of_those_beside(processor_seconds)

    def _of_those_beside(self, figure: Callable[[psutil.Process], float]) -> float:
        found = 0.0
        for process in self.beside:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += figure(process)
        return found


def processor_seconds(process: psutil.Process) -> float:
    """In user mode and in the kernel, of all threads."""
    times = process.cpu_times()
    return float(times.user + times.system)


def agents_of(pid: int) -> list[psutil.Process]:
    """The agent is no child of the job, and names the job in its command."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if f"job={pid}" in process.cmdline():
                found.append(process)
    return found


def family(pid: int) -> Family:
    """The processes now."""
    job = psutil.Process(pid)
    return Family(job, [*job.children(recursive=True), *agents_of(pid)])
