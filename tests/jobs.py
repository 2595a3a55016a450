"""Jobs: scripts in processes of their own, with jaxobs in them or not, and what became of them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.beside import job_environment
from tests.waiting import wait_for

ROOT = Path(__file__).parents[1]
PRELUDE = """
import os, sys, time
OBSERVED = bool(os.environ.pop("OBSERVED", ""))
if OBSERVED:
    import jaxobs
    obs = jaxobs.instrument()
"""


def environment(**extra: str) -> dict[str, str]:
    # On a busy machine an agent needs more than the default to start.
    return job_environment(**{"JAXOBS_SHUTDOWN_TIMEOUT": "20", **extra})


@dataclass(frozen=True)
class Outcome:
    status: int
    stdout: str
    stderr: str


def _is_agent_of(process: psutil.Process, job: int) -> bool:
    try:
        command = process.cmdline()
        if process.ppid() == job:
            return False  # what starts the agent, and is gone in a moment
    except psutil.Error:  # gone, or one that nobody has waited for yet
        return False
    return any("jaxobs.agent.main" in word for word in command) and f"job={job}" in command


@dataclass(frozen=True)
class Agent:
    process: psutil.Process

    def is_gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(psutil.NoSuchProcess):
                if self.process.is_running() and self.process.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.02)
                    continue
            return True
        return False


class Job:
    """A running script."""

    def __init__(self, source: str, *, reads: bool = False, **settings: str) -> None:
        """`reads`: it reads from its standard input what `say` writes."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + source],
            env=environment(**settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.PIPE if reads else subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # as a shell gives each job a group of its own
        )

    def wait_for(self, line: str) -> None:
        """Until the job has printed that line."""
        assert self.process.stdout is not None
        for said in self.process.stdout:
            if said.strip() == line:
                return
        pytest.fail(f"the job ended without saying {line!r}: {self.end().stderr}")

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def agents(self) -> list[psutil.Process]:
        """Those of this job, which are no children of it."""
        return [process for process in psutil.process_iter() if _is_agent_of(process, self.process.pid)]

    def agent(self) -> Agent:
        """Its agent, once that is there: `instrument()` does not wait for the shell that becomes it."""
        (process,) = wait_for(self.agents, "the agent")
        return Agent(process)

    def end(self, timeout: float = 120.0) -> Outcome:
        """What it has written since the line that was last read.

        `communicate` would lose what came together with that line, and so is in the buffer of the pipe.
        """
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        pipes = [pipe for pipe in (self.process.stdout, self.process.stderr) if pipe is not None]
        rest = [""] * len(pipes)

        def read(number: int) -> None:
            rest[number] = pipes[number].read()
            pipes[number].close()

        readers = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(len(pipes))]
        for reader in readers:
            reader.start()
        status = self.process.wait(timeout)
        for reader in readers:
            reader.join(timeout)
            assert not reader.is_alive(), "the job has ended, and something else holds its output open"
        return Outcome(status, rest[0], rest[1])


@pytest.fixture
def start() -> Iterator[Callable[..., Job]]:
    """Start a script; whatever is left of it at the end of the test is ended."""
    jobs: list[Job] = []

    def started(source: str, *, observed: bool = True, reads: bool = False, **settings: str) -> Job:
        jobs.append(Job(source, reads=reads, OBSERVED="1" if observed else "", **settings))
        return jobs[-1]

    yield started
    for job in jobs:
        if job.process.poll() is None:
            for agent in job.agents():
                with contextlib.suppress(psutil.NoSuchProcess):
                    agent.kill()
            job.process.kill()
            job.process.communicate()


@pytest.fixture
def run(start: Callable[..., Job]) -> Callable[..., Outcome]:
    """Run a script to its end."""

    def ran(source: str, *, observed: bool = True, **settings: Any) -> Outcome:
        return start(source, observed=observed, **settings).end()

    return ran
