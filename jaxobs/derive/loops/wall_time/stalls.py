"""Steps of a loop that took far longer than its steps do, for no reason that was seen."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence

STEPS_KEPT = 200
"""Steps whose times are the loop's usual ones: enough for a mean that one slow step does not move."""

ENOUGH_STEPS = 50
"""A loop of fewer steps has no usual step time. Before the first wait for the device XLA lets the host run 32 programs
ahead (`max_inflight_computations` of its clients), so the first turns say nothing of how long a step takes."""

FACTOR = 40
"""Times the usual step. A host that runs 32 steps ahead and then waits for the device has one turn of 32 steps' time."""

LEAST_SECONDS = 30.0
"""A shorter pause lies within the half minute that the loop's bottleneck speaks of, and is in its components."""

IN_A_ROW = 5
"""So many long steps after each other are no stall: that is how long the loop's steps take now."""


class Stalls:
    """Told each step's own seconds: without compiles, checkpoints, waits for input, inner loops and phases.

    What a step whose own time exceeds `limit` took beyond a usual one is `seconds` as far as nothing was seen to happen
    meanwhile, and `busy_seconds` else: an evaluation, say, that nobody marked. Both are sums.
    """

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=STEPS_KEPT)
        self._known: float | None = None
        """What is usual, until another step ends: each snapshot asks several times."""
        self._in_a_row = 0
        self.seconds = 0.0
        self.busy_seconds = 0.0

    def is_long(self, own: float) -> bool:
        """Whether that is no usual step."""
        return own > LEAST_SECONDS and (limit := self.limit) is not None and own > limit

    def step(self, own: float, silent: float = math.inf) -> None:
        """A step ended, in which for `silent` seconds nothing was seen. A long one is not counted among the usual."""
        if self.is_long(own):
            beyond = own - self.usual
            stalled = max(0.0, min(beyond, silent))
            self.seconds += stalled
            self.busy_seconds += beyond - stalled
            self._in_a_row += 1
            if self._in_a_row == IN_A_ROW:
                self._usual.clear()
        else:
            self.steps((own,))

    def steps(self, own: Sequence[float]) -> None:
        """Many steps ended, none of which is long."""
        self._usual.extend(own)
        self._known = None
        self._in_a_row = 0

    @property
    def usual(self) -> float:
        """Seconds of a step: the mean, or where it is longer the 90th of a hundred.

        The mean holds where the host waits for the device every so many steps; the other, where it had run ahead at
        first. 0 before the first step.
        """
        if not self._usual:
            return 0.0
        if self._known is None:
            ordered = sorted(self._usual)
            self._known = max(statistics.fmean(ordered), ordered[int(0.9 * (len(ordered) - 1))])
        return self._known

    @property
    def limit(self) -> float | None:
        """Seconds from which on a step is a stall; None while too few steps are known."""
        if len(self._usual) < ENOUGH_STEPS:
            return None
        return max(LEAST_SECONDS, FACTOR * self.usual)
