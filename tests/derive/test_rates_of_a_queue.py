"""Rates of loops on a device with a queue, of which all is known: shown while they run, they are right or absent."""

from __future__ import annotations

import random
from collections import deque
from typing import NamedTuple

import pytest

from jaxobs.model.events import Event, ExecutableRan, LoopEnded, StepCompleted
from tests.derive.made_up import at, check, created, module, step
from tests.derive.timed_runs import watched

IN_FLIGHT = 32
DISPATCH = 2e-4
POLLED_EVERY, TIMED_EVERY = 0.5, 3.0


class Job(NamedTuple):
    """A loop's epochs of so many `steps`, each of which takes the device `seconds`; then a pause.

    The host waits for the device each `waits` steps, and at the end of an epoch, outside the loop. With `entered` it
    enters the loop anew for each step. Runs are timed from second `timed` on. With `beside` each step runs something
    else, too, that takes no time and is never timed.
    """

    seconds: float
    steps: int
    pause: float = 0.3
    waits: int = 0
    entered: bool = False
    timed: float = 0.5
    beside: bool = False


class Simulation:
    """The host and the device of a job, with what polls see of them: a step twice a second, and the last of a loop.

    `shown` is the rate each second.
    """

    def __init__(self, job: Job) -> None:
        self.job, self.noise = job, random.Random(0)
        self.fold = watched({1: job.seconds}, samples=0)
        self.fold.apply(created(2, "beside"))
        self.fold.analysed(2, module(fingerprint="h2"))
        self.now = self.free = 1.0
        """The host's clock, and when the device is done with all that was dispatched."""
        self.busy, self.steps = 0.0, 0
        self.queue: deque[float] = deque()
        """When the steps in flight will be done."""
        self.completion_due, self.timing_due = 2.0, 1.0 + job.timed
        self.seen: deque[tuple[float, Event]] = deque()
        self.told = 2.0
        self.shown: list[float | None] = []

    def epoch(self) -> None:
        began, queue = self.now, self.queue
        queue.clear()
        for turn in range(1, self.job.steps + 1):
            start = self.now
            self.now += DISPATCH
            if len(queue) == IN_FLIGHT:
                self.now = max(self.now, queue.popleft())
            took = self.job.seconds * self.noise.uniform(0.97, 1.03)
            self.free = max(self.free, self.now) + took
            queue.append(self.free)
            if self.job.waits and turn % self.job.waits == 0:
                self.now = max(self.now, self.free)
                queue.clear()
            self.fold.apply(step(self.steps, start, self.now, runs=(1, 2) if self.job.beside else (1,)))
            self.poll(took)
            if self.job.entered or turn == self.job.steps:
                self.complete()
            self.steps += 1
            if self.job.entered or turn == self.job.steps:
                self.fold.apply(LoopEnded("train", at(self.now), 0))
            self.tell()
        self.now = max(self.now, self.free)
        self.busy += self.now - began
        self.now += self.job.pause
        self.tell()

    def poll(self, took: float) -> None:
        """Note what polls will see of the newest step, if they look at it."""
        if self.now >= self.completion_due:
            self.completion_due = self.free + POLLED_EVERY
            self.complete()
        if self.free >= self.timing_due and len(self.queue) <= 1:  # a clean run began on an idle device
            self.timing_due = self.free + TIMED_EVERY
            self.seen.append((self.free, ExecutableRan(1, took, 0.0, at(self.free))))

    def complete(self) -> None:
        """Polls will see when the device is done with the newest step."""
        self.seen.append((self.free, StepCompleted("train", self.steps, at(self.free), 100_000)))

    def tell(self) -> None:
        """What polls have seen by now, and a snapshot a second."""
        while self.told <= self.now:
            self.see(self.told)
            snapshot = self.fold.snapshot(at(self.told))
            check(snapshot, {})
            loop = snapshot.to_dict()["loops"].get("train")
            self.shown.append(loop["steps_per_second"] if loop else None)
            self.told += 1.0
        self.see(self.now)

    def see(self, until: float) -> None:
        while self.seen and self.seen[0][0] <= until:
            self.fold.apply(self.seen.popleft()[1])


def run(job: Job, lasts: float = 30.0) -> tuple[float, list[float | None]]:
    """The true steps/s, and what is shown each second."""
    simulation = Simulation(job)
    while simulation.now < 1.0 + lasts:
        simulation.epoch()
    return simulation.steps / simulation.busy, simulation.shown


JOBS = {
    "epochs dispatched in a moment": Job(0.01, 20),
    "epochs longer than the queue": Job(0.01, 50),
    "the same, timed late": Job(0.01, 50, timed=8.0),
    "long ones, timed late": Job(0.01, 100, timed=8.0),
    "without a pause": Job(0.01, 100, pause=0.0, timed=8.0),
    "long steps": Job(0.2, 20, timed=6.0),
    "short steps": Job(0.003, 60, timed=8.0),
    "entered once a step": Job(0.01, 50, entered=True),
    "entered once a step, long steps": Job(0.2, 20, entered=True),
    "waits each step": Job(0.01, 50, waits=1),
    "waits each tenth step": Job(0.01, 50, waits=10),
    "waits each step, five an epoch": Job(0.01, 5, waits=1),
    "something short beside": Job(0.01, 50, waits=10, beside=True),
    "epochs with something short beside": Job(0.01, 50, beside=True),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_rate_is_right_or_absent_at_any_moment(name: str) -> None:
    """Within a tenth; the first two, which are of a few steps, within a quarter."""
    true, shown = run(JOBS[name])
    first, second, *others = [rate for rate in shown if rate is not None]
    assert [first, second] == pytest.approx([true] * 2, rel=0.25)
    assert others == pytest.approx([true] * len(others), rel=0.1)


@pytest.mark.parametrize("name", JOBS)
def test_a_rate_is_there_some_seconds_after_runs_were_timed(name: str) -> None:
    _, shown = run(JOBS[name])
    assert None not in shown[round(JOBS[name].timed) + 6 :]
