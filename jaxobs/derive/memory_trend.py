"""Tells whether memory in use grows steadily, and when it will reach its limit if that goes on.

The highest use in each 10 s stretch of the last ten minutes is taken, because it is the highest use that hits the
limit, and because what comes and goes within a step is not growth. The slope is Theil and Sen's (the median of the
slopes between all pairs: H. Theil 1950, P. K. Sen 1968), which up to 29 % of outliers do not move. Mann and Kendall's
test (H. B. Mann 1945, M. G. Kendall 1948) decides whether there is a trend. The newer half alone must rise as well,
several times: memory that has grown and then stopped growing has no trend, nor has memory that was taken at once, as by
a second model or the first evaluation.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, combinations

from jaxobs.model.figure import Figure

STRETCH_SECONDS = 10.0
STRETCHES = 60
"""Stretches kept: ten minutes, shorter than a leak takes to end a run, longer than evaluation and checkpoints vary."""

MIN_STRETCHES = 18
"""Three minutes. Kendall's statistic is close to normal from ten values on (Kendall 1948, 4.6); each half has nine."""

CLEAR = 3.0
"""Standard deviations of Kendall's statistic that make a trend: one series in 740 without a trend passes by chance."""

STILL_GOING = 0.5
"""Least slope of the newer half over that of the whole: what levels off is no steady growth."""

LASTING_RISES = 3
"""Least rises of the newer half after which memory in use never falls back: two may be jumps, and come no more."""

FURTHEST_SECONDS = 7 * 86_400.0
"""Furthest forecast, a thousand times the ten minutes that were watched: a longer one would say nothing."""

TOO_FEW = f"watched for less than {MIN_STRETCHES * STRETCH_SECONDS / 60:.0f} minutes"
NO_TREND = "memory in use does not grow steadily"
NO_LIMIT = "its limit is not known"
TOO_FAR = f"further ahead than {FURTHEST_SECONDS / 86_400:.0f} days"


class Highest:
    """The highest value in each of the newest stretches of time."""

    def __init__(self) -> None:
        self._stretches: deque[tuple[float, float]] = deque(maxlen=STRETCHES + 1)

    def add(self, second: float, value: float) -> bool:
        """Add a value, at a time no earlier than the last one; return whether it begins a new stretch."""
        stretch = math.floor(second / STRETCH_SECONDS) * STRETCH_SECONDS
        if self._stretches and self._stretches[-1][0] == stretch:
            self._stretches[-1] = (stretch, max(self._stretches[-1][1], value))
            return False
        self._stretches.append((stretch, value))
        return True

    def complete(self) -> list[tuple[float, float]]:
        """The stretches that are over, as (begin in seconds, highest value)."""
        return list(self._stretches)[:-1]


def forecast(
    highest: Sequence[tuple[float, float]], limit: float | None
) -> tuple[Figure[float], Figure[float]]:
    """The growth in bytes a second, and the seconds until the limit is reached if it goes on.

    `highest`: (second, bytes) of each stretch that is over, in the order of time.
    """
    slope = steady_growth(highest) if len(highest) >= MIN_STRETCHES else None
    if slope is None:
        nothing: Figure[float] = Figure(None, TOO_FEW if len(highest) < MIN_STRETCHES else NO_TREND)
        return nothing, nothing
    if limit is None:
        return Figure(slope), Figure(None, NO_LIMIT)
    seconds = max(0.0, limit - highest[-1][1]) / slope
    return Figure(slope), Figure(None, TOO_FAR) if seconds > FURTHEST_SECONDS else Figure(seconds)


def steady_growth(points: Sequence[tuple[float, float]]) -> float | None:
    """The slope, in units of the value per second, if the growth is clear and still going on; else None."""
    slope = median_slope(points)
    if slope <= 0 or kendall(points) < CLEAR:
        return None
    newer = points[len(points) // 2 :]
    goes_on = median_slope(newer) >= STILL_GOING * slope and kendall(newer) > 0
    return slope if goes_on and lasting_rises(newer) >= LASTING_RISES else None


def lasting_rises(points: Sequence[tuple[float, float]]) -> int:
    """How often the least of all later values rises; a value that is far too high for once changes nothing."""
    return len(set(accumulate((value for _, value in reversed(points)), min))) - 1


def median_slope(points: Sequence[tuple[float, float]]) -> float:
    """Theil and Sen's estimate of the slope, from at least two points at different times."""
    pairs = combinations(points, 2)
    return statistics.median((later[1] - earlier[1]) / (later[0] - earlier[0]) for earlier, later in pairs)


def kendall(points: Sequence[tuple[float, float]]) -> float:
    """Mann and Kendall's statistic in standard deviations, positive where values rise; 0 where all are equal.

    Its variance has Kendall's correction for equal values: (n(n-1)(2n+5) - sum t(t-1)(2t+5)) / 18.
    """
    values = [value for _, value in points]
    score = sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))
    equal = (values.count(value) for value in set(values))
    variance = (_weight(len(values)) - sum(map(_weight, equal))) / 18
    return math.copysign(abs(score) - 1, score) / math.sqrt(variance) if score and variance > 0 else 0.0


def _weight(count: int) -> int:
    return count * (count - 1) * (2 * count + 5)
