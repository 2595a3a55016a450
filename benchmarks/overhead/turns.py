"""Jobs that take turns: each has the machine to itself for a while, the others are suspended with all their processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.overhead.worker import COUNTS

SETTLE_SECONDS = 0.2
"""After a job goes on: what its threads have to catch up with is not its every day."""

BEGINNING_SECONDS = 2.0
"""For the import of jaxobs, and for its agent to be there."""

STEPS_A_TURN = 30
"""At least, so that a turn of long steps is not cut too coarsely: its ends are known to ten steps, or one long one."""


@dataclass
class Job:
    """A loop in a process of its own; `kind` as in the worker."""

    kind: str
    file: Path
    process: subprocess.Popen[bytes]
    agents: list[psutil.Process] = field(default_factory=list)

    def find_agents(self) -> None:
        """What its own agent is: it is no child of the job, and names it in its command."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if f"job={self.process.pid}" in process.cmdline():
                    self.agents.append(process)

    def signal(self, number: int) -> None:
        """To the job and its agent."""
        self.process.send_signal(number)
        for agent in self.agents:
            with contextlib.suppress(psutil.Error):
                agent.send_signal(number)

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
        if after == before:
            raise RuntimeError(f"no step of {self.kind} ended within {seconds} s: {self.process.poll()=}")
        return (ended - began) / 1e9 / (after - before)


def start(kind: str, milliseconds: float, file: Path, environment: Mapping[str, str]) -> Job:
    """Start a job, and suspend it once it has made its first steps."""
    file.write_bytes(bytes(COUNTS.size))
    command = [sys.executable, "-m", "benchmarks.overhead.worker", str(file), str(milliseconds), kind]
    everything = {**os.environ, "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", **environment}
    job = Job(kind, file, subprocess.Popen(command, env=everything, stderr=subprocess.DEVNULL))
    _until_steps_follow(job, 0)
    job.signal(signal.SIGSTOP)
    return job


def go_on(job: Job) -> None:
    """Let it begin what its kind is, until it has made its first steps so."""
    job.process.send_signal(signal.SIGUSR1)
    job.signal(signal.SIGCONT)
    time.sleep(BEGINNING_SECONDS)
    _until_steps_follow(job, job.steps()[0])
    job.find_agents()
    job.signal(signal.SIGSTOP)


def _until_steps_follow(job: Job, steps: int) -> None:
    while job.steps()[0] == steps:
        if job.process.poll() is not None:
            raise RuntimeError(f"{job.kind} ended with status {job.process.returncode}")
        time.sleep(0.02)


def rounds_of_turns(
    jobs: Sequence[Job], rounds: int, seconds: float, order: random.Random
) -> Iterator[list[float]]:
    """In each round every job has one turn, in any order; what a step took in each job's, in the order of `jobs`."""
    for _ in range(rounds):
        took = [0.0] * len(jobs)
        for number in order.sample(range(len(jobs)), len(jobs)):
            took[number] = jobs[number].turn(seconds)
        yield took


def together(jobs: Sequence[Job], seconds: float) -> None:
    """Let all of them run at once."""
    for job in jobs:
        job.signal(signal.SIGCONT)
    time.sleep(seconds)
    for job in jobs:
        job.signal(signal.SIGSTOP)


@contextlib.contextmanager
def ended(jobs: Iterable[Job]) -> Iterator[None]:
    """Kill them all in the end, and wait for their agents."""
    try:
        yield
    finally:
        for job in jobs:
            job.process.kill()
            job.process.wait()
            job.signal(signal.SIGCONT)
