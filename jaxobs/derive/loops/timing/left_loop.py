"""Whether the device works on for a loop that the host has left."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.executables.executable import SAMPLES_AT_A_TIME
from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT

RUN_AHEAD = 0.1
"""Unattributed seconds above which the device is taken to work on after its loop has ended, as a share of the loop's
wall time since it was entered, or since a completion told. Fewer may be the error of the samples, some per cent, and
are dropped."""

RUN_AHEAD_OF_FEW = 1.0
"""`RUN_AHEAD` where the only samples are those of one burst, the first after a compile: in a training that waits for
its device at the end of each epoch they were 1.4 times too long, and its epochs came out longer by as much. Between
the two nothing is known."""


def works_on(
    unattributed: Mapping[int, float],
    untimed: Mapping[int, int],
    timed_runs: Mapping[int, int],
    steps: int,
    wall: float,
) -> bool | None:
    """Whether the device has more to do than `wall` seconds of the loop had room for; None where that is not known yet.

    `unattributed`: device seconds by run for which there was no room. `untimed`: calls by run of which no seconds are
    known. `timed_runs`: how many runs each one's seconds are from, of all since it was entered.
    """
    left = sum(unattributed.values())
    runs = {run for run, amount in unattributed.items() if amount > RUN_AHEAD * left}
    if max(timed_runs.values(), default=0) <= SAMPLES_AT_A_TIME:
        # Not the rare ones, as an epoch's last batch is; and those that polls miss where they meet others are short.
        runs |= {run for run, calls in untimed.items() if calls > RUN_AHEAD * steps}
    if not runs:
        return False
    timed = min(timed_runs[run] for run in runs)
    doubtful = timed <= SAMPLES_AT_A_TIME and RUN_AHEAD * wall < left <= RUN_AHEAD_OF_FEW * wall
    return None if timed < SAMPLES_AT_A_TIME or doubtful else left > RUN_AHEAD * wall


def may_hide(steps: int, wall: float, elapsed: float) -> bool:
    """Whether runs in flight can be much of `steps` that took the host `wall` seconds: within `elapsed` seconds after."""
    return RUN_AHEAD * steps < IN_FLIGHT and elapsed > RUN_AHEAD * wall
