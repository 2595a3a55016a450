"""Step time with jaxobs over step time without: loops of 0.1 to 100 ms a step, in their first minute and after it.

    python -m benchmarks.overhead [--milliseconds 0.1 1 10 100] [--generations 3] [--rounds 20] [--cores every one-free]

A generation is three processes of one loop: one plain, one plain as the control, one with everything of jaxobs at its
default: steps marked, the function watched, the loss recorded. They all take turns on the machine, in any order, the
others suspended; the loss is read each tenth step. A ratio is of two turns of one round; the median is over all, and its
interval is the bootstrap's, over generations and rounds in them. `one-free` leaves the loop one core less than there are.

Profiler windows fall into few of the turns, so that a median leaves them out: their budget comes on top. The jobs of
jaxobs run for a part of the time alone, and have as large a part of that budget.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.overhead.statistics_of_turns import ratio_of_generations
from benchmarks.overhead.turns import STEPS_A_TURN, Job, ended, rounds_of_turns, start
from benchmarks.overhead.worker import TARGETS
from jaxobs.config import Settings

KINDS = ("plain", "plain", "jaxobs")
FIRST_MINUTE = 20, 3.0
"""Turns and seconds of each that are a job's first minute."""

STEADY_SECONDS = 1.0


def environment(cores: str, jobs: int) -> dict[str, str]:
    """Of a loop with so many cores; each job has the machine for one of so many turns."""
    budget = Settings.model_fields["profile_budget_ratio"].default / jobs
    chosen = {"JAXOBS_PROFILE_BUDGET_RATIO": str(budget)}
    if cores == "one-free":
        count = max(1, (os.cpu_count() or 1) - 1)
        flag = "--xla_cpu_multi_thread_eigen=false" if count == 1 else ""
        chosen |= {"NPROC": str(count), "XLA_FLAGS": flag}
    return chosen


def measured(
    phase: str, jobs: Sequence[Job], rounds: int, seconds: float, order: random.Random
) -> dict[str, Any]:
    """Ratios of one phase, of jaxobs and of the control."""
    table = list(rounds_of_turns(jobs, rounds, seconds, order))
    generations = range(0, len(jobs), len(KINDS))
    plain, control, observed = (
        [[took[first + kind] for took in table] for first in generations] for kind in range(3)
    )
    return {
        "phase": phase,
        "step_ms": 1e3 * statistics.median(took for turns in plain for took in turns),
        "jaxobs": ratio_of_generations(observed, plain),
        "control": ratio_of_generations(control, plain),
        "turns": rounds * len(plain),
    }


def loop(milliseconds: float, cores: str, generations: int, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Both phases of one loop."""
    order = random.Random(seed)
    jobs: list[Job] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(ended(jobs))
        variables = environment(cores, generations * len(KINDS))
        for number in range(generations):
            places = [(place, kind) for place, kind in enumerate(KINDS)]
            trio = {
                place: start(kind, milliseconds, folder / f"{number}-{place}", variables)
                for place, kind in order.sample(places, len(places))
            }
            jobs += [trio[place] for place in range(len(KINDS))]
        first = measured("first minute", jobs, *FIRST_MINUTE, order)
        turn = max(STEADY_SECONDS, STEPS_A_TURN * first["step_ms"] / 1e3)
        rows = [first, measured("after it", jobs, rounds, turn, order)]
    return [{"cores": cores, **row} for row in rows]


def main() -> None:
    """Print a line for each loop and phase."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--milliseconds", type=float, nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--cores", nargs="+", default=["every", "one-free"], choices=["every", "one-free"])
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    options = parser.parse_args()
    rows = []
    for cores in options.cores:
        for milliseconds in options.milliseconds:
            for row in loop(milliseconds, cores, options.generations, options.rounds, options.seed):
                rows.append(row)
                line = f"cores {row['cores']:8}  {row['step_ms']:8.3f} ms  {row['phase']:12}  {row['turns']:3} turns"
                print(f"{line}  jaxobs {row['jaxobs']}  control {row['control']}", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
