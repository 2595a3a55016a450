"""Tells whether two samples differ by more than they vary: an interval for their shift, with no distribution assumed.

The shift is the median of all differences between a value of one sample and a value of the other (Hodges and Lehmann
1963). Its interval holds the differences that the Wilcoxon-Mann-Whitney test does not reject (Moses; Hollander, Wolfe
and Chicken, Nonparametric Statistical Methods, 3rd ed., section 4.3). One disturbed stretch hardly moves it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

CONFIDENCE: Final = 0.99
Z: Final = 2.576
"""The normal distribution's quantile for CONFIDENCE, two-sided."""

RUN_TO_RUN: Final = 0.03
"""Share by which two runs of one program may differ although neither varies: memory is laid out differently, or a clock
settled at another rate. No interval from within two runs includes that (Kalibera and Jones, Rigorous Benchmarking in
Reasonable Time, ISMM 2013)."""

MIN_VALUES: Final = 5
"""Least values of each sample. By chance all five of one lie above or below all five of the other in 2 orders of 252,
less than the 1 % that CONFIDENCE allows; with four values the chance is larger."""

MAX_CORRELATION: Final = 0.9
"""Largest correlation of neighbours that is assumed: with 1 no value would count."""


@dataclass(frozen=True, slots=True)
class Change:
    """How much larger the second sample is than the first: a difference, with its interval of CONFIDENCE."""

    estimate: float
    low: float
    high: float

    def beyond(self, margin: float) -> bool:
        """Whether the whole interval lies farther from 0 than `margin`, on one side."""
        return self.low > margin or self.high < -margin


def shift(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """How far `after` lies above `before`; None where either has fewer than MIN_VALUES independent values.

    Neighbours in time are alike and count for fewer: for the number of independent values that would give a mean of the
    same variance, by their correlation (Zwiers and von Storch, Journal of Climate 8, 1995, for a first-order process).
    """
    one, other = _effective(before), _effective(after)
    if min(one, other) < MIN_VALUES:
        return None
    half = Z * math.sqrt((one + other + 1) / (12 * one * other))
    differences = [new - old for new in after for old in before]
    low, middle, high = (quantile(differences, 0.5 + share) for share in (-half, 0.0, half))
    return Change(middle, low, high)


def ratio(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """The shift of the values' logarithms, whose exponentials are factors; None unless all values are above 0."""
    if min((*before, *after), default=0.0) <= 0:
        return None
    return shift([math.log(value) for value in before], [math.log(value) for value in after])


def _effective(values: Sequence[float]) -> float:
    """The number of independent values that would tell as much as these."""
    if len(values) < 3:
        return float(len(values))
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    if spread <= 0:
        return float(len(values))
    alike = math.fsum((one - mean) * (other - mean) for one, other in pairwise(values)) / spread
    correlation = min(MAX_CORRELATION, max(0.0, alike))
    return len(values) * (1 - correlation) / (1 + correlation)


def quantile(values: Sequence[float], share: float) -> float:
    """A quantile, interpolated between two neighbours (Hyndman and Fan 1996, type 7, which is symmetric).

    Not by `statistics`: a notebook's own module may have that name.
    """
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])
