"""One value that the user records, such as the loss: the newest, and when it was not finite or leapt.

Of a name one value a second is read, so what lasts for less may be missed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from jaxobs.model.figure import Figure
from jaxobs.vocabulary.text import MAX_NUMBER
from jaxobs.vocabulary.units import count

USUAL: Final = 100
"""Newest values that tell what is usual. Before there are as many nothing is a leap: a loss falls fast at first."""

LEAP: Final = 10.0
"""A value leaps where it lies above the median by so many times the range of the middle eight tenths. Of a thousand
values of normal noise the largest is expected at 1.3 times, and of noise that falls off exponentially at 3.1 times."""

MIN_LEAP: Final = 0.1
"""Share of the median by which a leap lies above it at least: what hardly varies has leaps that nobody would see."""

NOT_FINITE: Final = (
    f"the last value is not finite, or beyond {MAX_NUMBER:g} (so far {{}} of those read, first after {{}})"
)


class RecordedValue:
    """What was read of one name in one loop."""

    def __init__(self) -> None:
        self.not_finite = 0
        """How many values were not finite, or above MAX_NUMBER."""
        self.leaps = 0
        """How often a value rose far above what was usual."""
        self.located = ""
        """Where the first value that is not finite began to be so, if that was looked for."""
        self._value: float | None = None
        self._usual: deque[float] = deque(maxlen=USUAL)
        self._not_finite_since: int | None = None
        self._leaps_now = False
        self._last_leap = ""

    def add(self, value: float, steps: int) -> None:
        """Add a value that was read when so many steps had ended."""
        finite = abs(value) <= MAX_NUMBER
        self._value = value if finite else None
        if not finite:
            self.not_finite += 1
            if self._not_finite_since is None:
                self._not_finite_since = steps
            return
        before, self._leaps_now = self._leaps_now, self._is_far(value)
        if self._leaps_now and not before:
            self.leaps += 1
            usual = sorted(self._usual)[USUAL // 2]
            self._last_leap = f"leapt from about {usual:.3g} to {value:.3g} after {count(steps, 'step')}"
        self._usual.append(value)

    def _is_far(self, value: float) -> bool:
        """Whether a value lies far above the usual ones; never where these are nearly all the same, as a setting is."""
        if len(self._usual) < USUAL:
            return False
        ordered = sorted(self._usual)
        low, median, high = (ordered[USUAL * tenths // 10] for tenths in (1, 5, 9))
        return low < high and value - median > max(LEAP * (high - low), MIN_LEAP * abs(median))

    def figure(self) -> Figure[float]:
        """The newest value, with its last leap; or since when it is not finite."""
        if self._value is not None:
            last = f"; the last of {count(self.leaps)} leaps" if self.leaps > 1 else ""
            return Figure(self._value, f"{self._last_leap}{last}" if self.leaps else None)
        reason = NOT_FINITE.format(self.not_finite, count(self._not_finite_since or 0, "step"))
        return Figure(None, f"{reason}: {self.located}" if self.located else reason)
