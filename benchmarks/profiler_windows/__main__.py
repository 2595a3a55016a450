"""What profiler windows cost a job: how much longer its steps took around each window, against what was charged for it.

    python -m benchmarks.profiler_windows [--seconds 110] [--only matmul,operations,input,dense]

An event study, two runs of each loop, each in a process of its own: at a budget of 0.5 %, and with a window every ten
seconds whatever it costs (windows of the same length: that follows from the budget). All steps are timed.
The excess of a window is the time from its first moment until two seconds after its trace was handed over, in which the
agent reads it, less what as many steps took at the pace of the two seconds before and after. The same sum at places where
there was no window (placebos) has its mean subtracted, and its scatter is the noise. The first window of each run, with
all modules in its trace, is one of them.

Printed for each run: the mean excess of a window with its 95 % interval (bootstrap over windows and placebos), and what
the budget was charged for it. How many there are does not change the excess of one: that both runs agree shows it.
The means leave out the largest and smallest tenth of windows and of placebos, for the machine has hiccups of its own.
Overhead: the mean excess of all windows of both over the mean time between windows that the budget asks for. It must be
at most 0.5 %. Exit status 1 where the interval's upper end is above that.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.observed import run
from benchmarks.profiler_windows.excess import difference, studied
from benchmarks.profiler_windows.loops import LOOPS
from benchmarks.truths import Figure, Table, chosen, options_of

ALLOWED = 0.005
"""Of wall time: the budget that the windows are given. By default it is 0.2 %: too few windows to study."""

EVERY = 10.0
BUDGET = {"JAXOBS_PROFILE_BUDGET_RATIO": str(ALLOWED)}
PROGRAM = Path(__file__).with_name("loops.py")


def study(name: str, seconds: float) -> Iterator[Figure]:
    """All of one loop."""
    from jaxobs_plugins.probes.profiler.schedule import MIN_PAUSE

    windows: list[float] = []
    placebo: list[float] = []
    made: list[list[float]] = []
    for pace, every in ((f"budget {ALLOWED:.1%}", 0.0), (f"every {EVERY:.0f} s", EVERY)):
        ended = run(
            PROGRAM, name, str(seconds), str(every), how="plain", environment=BUDGET, timeout=2 * seconds + 60
        )
        if ended.status:
            sys.exit(f"{name}, {pace}: {ended.stderr[-2_000:]}")
        told = ended.truth
        lost, without, spans = studied(told)
        if not lost or not without:
            sys.exit(f"{name}, {pace}: no window, or no place beside one, to study: give more --seconds")
        windows, placebo, made = windows + lost, placebo + without, made + spans
        excess = difference(lost, without).times(1e3)
        said = f"{len(spans)} windows, {told['read']} read; {excess.low:+.1f} to {excess.high:+.1f} ms"
        yield Figure(f"excess of a window, {pace}", excess.middle, unit="ms", note=said)
        charged = 1e3 * statistics.fmean(span[2] for span in spans)
        length = 1e3 * statistics.median(span[3] for span in spans)
        said = f"median {length:.0f} ms long"
        yield Figure(f"charged for a window, {pace}", charged, unit="ms", note=said)
    between = statistics.fmean(max(span[2] / ALLOWED, MIN_PAUSE + span[3]) for span in made)
    lost_ratio = difference(windows, placebo).times(100 / between)
    said = f"one window in {between:.1f} s; {lost_ratio} %"
    yield Figure("overhead at most", lost_ratio.high, between=(-math.inf, 100 * ALLOWED), unit="%", note=said)


def main() -> int:
    """Print everything, loop by loop."""
    parser = options_of(__doc__)
    parser.add_argument("--seconds", type=float, default=110.0)
    options = parser.parse_args()
    table = Table()
    for name in chosen(options.only, ((name, name) for name in LOOPS)):
        table.add(name, study(name, options.seconds))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
