"""What profiler windows cost a job: what the budget counts of it, and a job with them over one without.

    python benchmarks/profile_windows.py [--pairs 8] [--seconds 60] [--loops operations matmul scan sparse]

For each loop two figures:

- counted: all that windows were charged over the wall time of the job, from its beginning until they were paid for. It
  must be at most 0.5 %.
- step time with windows over without: paired runs in processes of their own, in turn, the default budget against
  JAXOBS_PROFILE_BUDGET_RATIO=0; the mean step of each whole run after its compile, first window included. The mean of the
  pairs' logarithms with its 95 % confidence interval (Student's t). An interval wider than 0.5 % to either side says
  nothing about 0.5 %: then it is not decided on this machine.

Exit status 1: the counted cost is too high, or an interval that decides lies above 0.5 %.
`profile_window_parts.py` takes one window apart.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from profiled_loops import LOOPS, loop, profiler_of

ALLOWED = 0.005
"""Of wall time: what jaxobs promises, and the default of JAXOBS_PROFILE_BUDGET_RATIO."""


def train(name: str, seconds: float) -> dict[str, Any]:
    """Run a loop for so long, and on until its windows are paid for, but no longer than twice as long.

    Returns seconds a step, the job's seconds, and how many windows there were and what they were charged in all.
    """
    import jaxobs

    with jaxobs.instrument(prometheus=False) as obs:
        function, x = loop(name)
        step = obs.watch(function)
        step(x).block_until_ready()
        probe, told = profiler_of(obs)
        schedule = probe._windows.schedule  # noqa: SLF001  # there is no other way to ask when it began
        ratio, job_began = schedule.ratio, schedule.began
        started = time.monotonic()
        steps = 0

        def turns() -> Iterator[None]:
            while True:
                ran = time.monotonic() - started
                if ran >= 2 * seconds or (ran >= seconds and time.monotonic() >= job_began + owed()):
                    return
                yield None

        def owed() -> float:
            return sum(window.cost for window in told) / 1e9 / ratio if ratio > 0 else 0.0

        for _ in obs.steps(turns()):
            step(x).block_until_ready()
            if name == "sparse":
                time.sleep(0.02)
            steps += 1
        ended = time.monotonic()
        read = sum(window.outcome == "read" for window in told)
        charged = sum(window.cost for window in told) / 1e9
        return {
            "step_seconds": (ended - started) / steps, "wall": ended - job_began,
            "charged": charged, "windows": len(told), "read": read,
        }  # fmt: skip


def measured(name: str, budget: float, seconds: float) -> dict[str, Any]:
    """`train` in a process of its own with that budget."""
    command = [sys.executable, __file__, "--child", name, "--seconds", str(seconds)]
    environment = {**os.environ, "JAXOBS_PROFILE_BUDGET_RATIO": str(budget)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of the ratios, and the ends of its 95 % confidence interval; infinitely wide for a single one."""
    from scipy.stats import t  # JAX brings it

    logarithms = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logarithms)
    if len(ratios) < 2:
        return math.exp(mean), 0.0, math.inf
    error = statistics.stdev(logarithms) / math.sqrt(len(ratios))
    half = float(t.ppf(0.975, len(ratios) - 1)) * error
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def verdict(low: float, high: float) -> str:
    """What an interval of the ratio says: `within 0.5 %`, `above 0.5 %`, or that it does not decide."""
    if high <= 1 + ALLOWED:
        return "within 0.5 %"
    if (high - low) / 2 <= ALLOWED and low > 1 + ALLOWED:
        return "above 0.5 %"
    return "not decided on this machine"


def compare(name: str, pairs: int, seconds: float) -> bool:
    """Print both figures of one loop. Returns whether neither is too high."""
    ratios, counted, windows, read = [], [], 0, 0
    for pair in range(pairs):
        took = {}
        for budget in (0.0, ALLOWED) if pair % 2 else (ALLOWED, 0.0):
            told = measured(name, budget, seconds)
            took[budget] = told["step_seconds"]
            if budget:
                counted.append(told["charged"] / told["wall"])
                windows, read = windows + told["windows"], read + told["read"]
        ratios.append(took[ALLOWED] / took[0.0])
    ratio, low, high = interval(ratios)
    said = verdict(low, high)
    paid = max(counted) <= ALLOWED
    print(
        f"{name:12}counted cost / wall: {statistics.fmean(counted):.3%}, at most {max(counted):.3%} in one of {pairs} "
        f"runs ({windows} windows, {read} read): {'within' if paid else 'ABOVE'} 0.5 %\n"
        f"{'':12}step time with / without: {ratio - 1:+.2%}, 95 % interval {low - 1:+.2%} to {high - 1:+.2%}: {said}\n"
        f"{'':12}each pair: {' '.join(f'{each - 1:+.2%}' for each in ratios)}",
        flush=True,
    )
    return paid and said != "above 0.5 %"


def main() -> int:
    """Print both figures of each loop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--loops", nargs="*", choices=LOOPS, default=LOOPS)
    parser.add_argument("--child", choices=LOOPS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.child, options.seconds)))
        return 0
    fine = [compare(name, options.pairs, options.seconds) for name in options.loops]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
