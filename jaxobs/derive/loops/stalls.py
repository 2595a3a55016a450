"""What long steps took beyond their usual time."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

STEPS_KEPT = 200
"""Newest steps whose times give the usual step time: enough for a mean that one slow step does not move."""

ENOUGH_STEPS = 50
"""A loop of fewer steps has no usual step time. Before the first wait for the device XLA lets the host run 32 programs
ahead (`max_inflight_computations` of its clients), so the first turns say nothing of how long a step takes."""

FACTOR = 40
"""Multiple of the usual step time above which a step is long. A host that runs 32 steps ahead and then waits for the
device has one turn of 32 steps' time."""

MIN_STALL_SECONDS = 30.0
"""A shorter step is never long: it lies within the half minute that the loop's bottleneck covers, and is in its
components."""

IN_A_ROW = 5
"""Consecutive long steps after which the usual step time is taken anew: that is how long the loop's steps take now."""


class Stalls:
    """Sums up what long steps took beyond the usual step time, from each step's own seconds.

    A step's own seconds are those without compiles, checkpoints, waits for input, inner loops and phases. A step is
    long where they exceed `limit`; its seconds beyond `usual` are stalled, whatever the reason: an evaluation, say,
    that nobody marked.
    """

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=STEPS_KEPT)
        self._in_a_row = 0
        self.seconds = 0.0

    def step(self, own: float) -> None:
        """Add a step. A long one does not count among the usual ones."""
        if own > MIN_STALL_SECONDS and (limit := self.limit) is not None and own > limit:
            self.seconds += own - self.usual
            self._in_a_row += 1
            if self._in_a_row == IN_A_ROW:
                self._usual.clear()
        else:
            self.steps((own,))

    def steps(self, own: Sequence[float]) -> None:
        """Add the own seconds of many steps, none of which is long."""
        self._usual.extend(own)
        self._in_a_row = 0

    @property
    def usual(self) -> float:
        """Seconds of a usual step: the mean or the 90th percentile, whichever is longer; 0 before the first step.

        The mean is right where the host waits for the device every so many steps, the percentile where it had run ahead
        at first.
        """
        if not self._usual:
            return 0.0
        ordered = sorted(self._usual)
        return max(statistics.fmean(ordered), ordered[int(0.9 * (len(ordered) - 1))])

    @property
    def limit(self) -> float | None:
        """Own seconds above which a step is long; None while too few steps are known."""
        if len(self._usual) < ENOUGH_STEPS:
            return None
        return max(MIN_STALL_SECONDS, FACTOR * self.usual)
