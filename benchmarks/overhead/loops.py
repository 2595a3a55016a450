"""Step time with jaxobs over step time without, of one loop: in its first minute and after it."""

from __future__ import annotations

import contextlib
import math
import os
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.overhead.turns import STEPS_A_TURN, Job, ended, go_on, rounds_of_turns, start, together
from benchmarks.paired import Interval, changed_ratio
from jaxobs.config import Settings

CORES = ("every", "one-free")
KINDS = ("plain", "plain", "jaxobs")
"""The second is the control."""

FIRST_MINUTE = 20, 3.0
"""Turns, and seconds of each, that are a job's first minute."""

STEADY_SECONDS = 1.0


BEFORE_ROUNDS = 20
"""Of turns before anything of jaxobs is there. Two processes with the same loop differ by some per cent for as long as
they live, with where their memory lies: what they differed by before is taken out of what they differ by after."""


class Phase(NamedTuple):
    """Ratios to the plain loop. `milliseconds` was aimed at, `step_ms` is what a step of the plain loop took."""

    milliseconds: float
    cores: str
    name: str
    step_ms: float
    jaxobs: Interval
    control: Interval


def loop(
    milliseconds: float, cores: str, generations: int, rounds: int, seed: int, *, first_minute: bool = True
) -> Iterator[Phase]:
    """Both phases, with so many generations of three processes; without the first, all jobs get through it together."""
    order = random.Random(seed)
    jobs: list[Job] = []
    turn = max(STEADY_SECONDS, STEPS_A_TURN * milliseconds / 1e3)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(ended(jobs))
        variables = _environment(cores, generations * len(KINDS))
        for number in range(generations):
            kinds = list(enumerate(KINDS))
            trio = {
                place: start(kind, milliseconds, folder / f"{number}-{place}", variables)
                for place, kind in order.sample(kinds, len(kinds))
            }
            jobs += [trio[place] for place in range(len(KINDS))]
        before = Turns(jobs, BEFORE_ROUNDS, turn, order)
        for job in jobs:
            go_on(job)
        if first_minute:
            yield _phase(milliseconds, cores, "first minute", Turns(jobs, *FIRST_MINUTE, order), before)
        else:
            together(jobs, math.prod(FIRST_MINUTE))
        yield _phase(milliseconds, cores, "after it", Turns(jobs, rounds, turn, order), before)


def _phase(milliseconds: float, cores: str, name: str, after: Turns, before: Turns) -> Phase:
    observed, control = (
        changed_ratio((after.of[kind], after.of[0]), (before.of[kind], before.of[0])) for kind in (2, 1)
    )
    return Phase(milliseconds, cores, name, after.step_ms, observed, control)


def _environment(cores: str, jobs: int) -> dict[str, str]:
    """Of a loop with so many cores. Each job runs in one of so many turns: so large is its budget for windows."""
    budget = Settings.model_fields["profile_budget_ratio"].default / jobs
    chosen = {"JAXOBS_PROFILE_BUDGET_RATIO": str(budget)}
    if cores == "one-free":
        count = max(1, (os.cpu_count() or 1) - 1)
        flag = "--xla_cpu_multi_thread_eigen=false" if count == 1 else ""
        chosen |= {"NPROC": str(count), "XLA_FLAGS": flag}
    return chosen


class Turns:
    """Seconds a step: `of[kind][generation][round]`."""

    def __init__(self, jobs: Sequence[Job], rounds: int, seconds: float, order: random.Random) -> None:
        table = list(rounds_of_turns(jobs, rounds, seconds, order))
        generations = range(0, len(jobs), len(KINDS))
        self.of = [
            [[took[first + kind] for took in table] for first in generations] for kind in range(len(KINDS))
        ]
        self.step_ms = 1e3 * statistics.median(took for turns in self.of[0] for took in turns)
