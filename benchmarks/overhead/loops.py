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

from benchmarks.overhead.turns import STEPS_A_TURN, Job, ended, rounds_of_turns, start, together
from benchmarks.paired import Interval, ratio_of_groups
from jaxobs.config import Settings

CORES = ("every", "one-free")
KINDS = ("plain", "plain", "jaxobs")
"""The second is the control."""

FIRST_MINUTE = 20, 3.0
"""Turns, and seconds of each, that are a job's first minute."""

STEADY_SECONDS = 1.0


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
        if first_minute:
            step_ms, *ratios = _measured(jobs, *FIRST_MINUTE, order)
            yield Phase(milliseconds, cores, "first minute", step_ms, *ratios)
        else:
            together(jobs, math.prod(FIRST_MINUTE))
        turn = max(STEADY_SECONDS, STEPS_A_TURN * milliseconds / 1e3)
        step_ms, *ratios = _measured(jobs, rounds, turn, order)
        yield Phase(milliseconds, cores, "after it", step_ms, *ratios)


def _environment(cores: str, jobs: int) -> dict[str, str]:
    """Of a loop with so many cores. Each job runs in one of so many turns: so large is its budget for windows."""
    budget = Settings.model_fields["profile_budget_ratio"].default / jobs
    chosen = {"JAXOBS_PROFILE_BUDGET_RATIO": str(budget)}
    if cores == "one-free":
        count = max(1, (os.cpu_count() or 1) - 1)
        flag = "--xla_cpu_multi_thread_eigen=false" if count == 1 else ""
        chosen |= {"NPROC": str(count), "XLA_FLAGS": flag}
    return chosen


def _measured(
    jobs: Sequence[Job], rounds: int, seconds: float, order: random.Random
) -> tuple[float, Interval, Interval]:
    """Milliseconds of a plain step, and the ratios of jaxobs and of the control."""
    table = list(rounds_of_turns(jobs, rounds, seconds, order))
    generations = range(0, len(jobs), len(KINDS))
    plain, control, observed = (
        [[took[first + kind] for took in table] for first in generations] for kind in range(len(KINDS))
    )
    step_ms = 1e3 * statistics.median(took for turns in plain for took in turns)
    return step_ms, ratio_of_groups(observed, plain), ratio_of_groups(control, plain)
