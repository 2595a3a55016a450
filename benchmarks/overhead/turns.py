"""Jobs that take turns: each has the machine to itself for a while, the others are suspended with all their processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.overhead.worker import COUNTS

SETTLE_SECONDS = 0.5
"""After a job goes on: what its threads have to catch up with is not its every day."""


@dataclass
class Job:
    """A loop in a process of its own; `name` says which kind it is."""

    name: str
    file: Path
    process: subprocess.Popen[bytes]
    seconds: list[float] = field(default_factory=list)
    """A step's seconds in each turn."""

    def processes(self) -> Iterator[psutil.Process]:
        """The job, and its agent if it has one."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid == self.process.pid or f"job={self.process.pid}" in process.cmdline():
                    yield process

    def signal(self, number: int) -> None:
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def steps(self) -> tuple[int, int]:
        """So far, and when the last of them ended, in ns."""
        steps, at = COUNTS.unpack(self.file.read_bytes())
        return steps, at

    def turn(self, seconds: float) -> float:
        """Let it run, and a step's seconds meanwhile."""
        self.signal(signal.SIGCONT)
        time.sleep(SETTLE_SECONDS)
        before, began = self.steps()
        time.sleep(seconds)
        after, ended = self.steps()
        self.signal(signal.SIGSTOP)
        return (ended - began) / 1e9 / (after - before)


def start(name: str, milliseconds: float, folder: Path, cores: Sequence[int], **environment: str) -> Job:
    """Start a job on these cores; its agent may use all. It is suspended once it has made its first steps."""
    file = folder / f"{name}-{time.monotonic_ns()}"
    file.write_bytes(bytes(COUNTS.size))
    how = name.partition(" ")[0]
    worker = ["-m", "benchmarks.overhead.worker", str(file), str(milliseconds), how]
    command = [sys.executable, *worker]
    if how == "run":
        command = [sys.executable, "-m", "jaxobs", "run", *worker]
    everything = {**os.environ, "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", **environment}
    process = subprocess.Popen(command, env=everything, stderr=subprocess.DEVNULL)
    os.sched_setaffinity(process.pid, cores)
    job = Job(name, file, process)
    while job.steps()[0] == 0:
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with status {process.returncode}")
        time.sleep(0.05)
    return job


def take_turns(jobs: Sequence[Job], rounds: int, seconds: float, order: random.Random) -> None:
    """In each round every job has one turn, in any order."""
    for _ in range(rounds):
        for job in order.sample(list(jobs), len(jobs)):
            job.seconds.append(job.turn(seconds))


def end(jobs: Sequence[Job]) -> None:
    """Kill them all."""
    for job in jobs:
        job.process.kill()
        job.process.wait()
        job.signal(signal.SIGCONT)
