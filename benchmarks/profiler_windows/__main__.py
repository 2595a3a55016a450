"""What profiler windows cost a job: how much longer its steps took around each window, against what was charged for it.

    python -m benchmarks.profiler_windows [--seconds 110] [--loops matmul operations input dense]

An event study, two runs of each loop, each in a process of its own: at a budget of 0.5 %, and with a window every ten
seconds whatever it costs (windows of the same length: that follows from the budget). All steps are timed.
The excess of a window is the time from its first moment until two seconds after its trace was handed over, in which the
agent reads it, less what as many steps took at the pace of the two seconds before and after. The same sum at places where
there was no window (placebos) has its mean subtracted, and its scatter is the noise. The first window of each run, with
all modules in its trace, is one of them.

Printed for each run: the mean excess of a window with its 95 % interval (bootstrap over windows and placebos), and what
the budget was charged for it. How many there are does not change the excess of one: that both runs agree shows it.
The means leave out the largest and smallest tenth of windows and of placebos, for the machine has hiccups of its own;
the plain difference is printed beside them.
Overhead: the mean excess of all windows of both over the mean time between windows that the budget asks for. It must be
at most 0.5 %. Exit status 1 where the interval's upper end is above that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.paired import Interval
from benchmarks.profiler_windows.excess import difference, studied
from benchmarks.profiler_windows.loops import LOOPS

ALLOWED = 0.005
"""Of wall time: the budget that the windows are given. By default it is 0.2 %: too few windows to study."""

EVERY = 10.0


def measured(name: str, seconds: float, every: float, budget: float = ALLOWED) -> dict[str, Any]:
    """What a run of a loop tells, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.profiler_windows.loops", name, str(seconds), str(every)]
    environment = {**os.environ, "JAXOBS_PROFILE_BUDGET_RATIO": str(budget)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def shown(interval: Interval, unit: float, form: str) -> str:
    """Mean and interval in a unit."""
    middle, low, high = (format(each, form) for each in interval.times(unit))
    return f"{middle} (95 % interval {low} to {high})"


def study(name: str, seconds: float) -> bool:
    """Print all of one loop. Returns whether its overhead is surely within what is allowed."""
    from jaxobs_plugins.probes.profiler.schedule import MIN_PAUSE

    windows: list[float] = []
    placebo: list[float] = []
    made: list[list[float]] = []
    for pace, every in ((f"budget {ALLOWED:.1%}", 0.0), (f"every {EVERY:.0f} s", EVERY)):
        told = measured(name, seconds, every)
        lost, without, spans = studied(told)
        if not lost or not without:
            sys.exit(f"{name}, {pace}: no window, or no place beside one, to study: give more --seconds")
        each = [f"{ms * 1e3:+.0f}/{span[2] * 1e3:.0f}" for ms, span in zip(lost, spans, strict=True)]
        windows, placebo, made = windows + lost, placebo + without, made + spans
        print(
            f"{name:12}{pace}: {len(spans)} windows ({told['read']} of {len(told['spans'])} read), "
            f"median {statistics.median(span[3] for span in spans) * 1e3:.0f} ms long; "
            f"excess of each {shown(difference(lost, without), 1e3, '+.1f')} ms, "
            f"charged {statistics.fmean(span[2] for span in spans) * 1e3:.1f} ms\n"
            f"{'':12}each/charged: {' '.join(each)}  placebos: {' '.join(f'{ms * 1e3:+.0f}' for ms in without)}",
            flush=True,
        )
    between = statistics.fmean(max(span[2] / ALLOWED, MIN_PAUSE + span[3]) for span in made)
    lost_ratio = difference(windows, placebo).times(1 / between)
    charged = statistics.fmean(span[2] for span in made)
    fine = lost_ratio.high <= ALLOWED
    print(
        f"{name:12}one window in {between:.1f} s: overhead {shown(lost_ratio, 100, '+.3f')} %, "
        f"(plain {(statistics.fmean(windows) - statistics.fmean(placebo)) / between:+.3%}), "
        f"charged {charged / between:.3%}: {'PASS' if fine else 'FAIL'} on {ALLOWED:.1%}",
        flush=True,
    )
    return fine


def main() -> int:
    """Print everything, loop by loop."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profiler_windows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--loops", nargs="*", choices=LOOPS, default=LOOPS)
    options = parser.parse_args()
    fine = [study(name, options.seconds) for name in options.loops]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
