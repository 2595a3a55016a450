"""Whether two samples differ by more than they vary: an interval for their shift, without assuming a distribution.

The shift is the median of all differences between a value of the one and a value of the other (Hodges and Lehmann 1963),
its interval the ranks of these differences that the Wilcoxon-Mann-Whitney test does not refuse (Moses; Hollander, Wolfe
and Chicken, Nonparametric Statistical Methods, 3rd ed., section 4.3). One stretch that was disturbed hardly moves it.
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
"""Share by which two runs of one program may differ though neither varies: memory lies elsewhere, a clock settled
elsewhere. No interval from within two runs knows that (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time,
ISMM 2013)."""

FEWEST: Final = 5
"""Of each: two orders in 252 have all five of one above all five of the other, which is CONFIDENCE; four are fewer."""

MOST_CORRELATED: Final = 0.9


@dataclass(frozen=True, slots=True)
class Change:
    """By how much the second is larger than the first: a difference, with an interval of CONFIDENCE."""

    estimate: float
    low: float
    high: float

    def beyond(self, margin: float) -> bool:
        """Whether all of the interval is farther from 0 than `margin`."""
        return self.low > margin or self.high < -margin


def shift(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """How far `after` lies above `before`; None where they are too few: from five independent ones each there is one.

    Neighbours in time are alike, which makes them count for fewer: as many as independent ones of the same variance would
    be, by their correlation (Zwiers and von Storch, Journal of Climate 8, 1995, for a process of first order).
    """
    one, other = _effective(before), _effective(after)
    if min(one, other) < FEWEST:
        return None
    half = Z * math.sqrt((one + other + 1) / (12 * one * other))
    differences = sorted(new - old for new in after for old in before)
    return Change(
        _quantile(differences, 0.5), _quantile(differences, 0.5 - half), _quantile(differences, 0.5 + half)
    )


def ratio(before: Sequence[float], after: Sequence[float]) -> Change | None:
    """The shift of the logarithms of values above 0: `factor` makes a factor of each of its three numbers."""
    if min((*before, *after), default=0.0) <= 0:
        return None
    return shift([math.log(value) for value in before], [math.log(value) for value in after])


def factor(logarithm: float) -> float:
    """What a shift of logarithms multiplies by."""
    return math.exp(logarithm)


def _effective(values: Sequence[float]) -> float:
    """How many independent values would tell as much."""
    if len(values) < 3:
        return float(len(values))
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    if spread <= 0:
        return float(len(values))
    alike = math.fsum((one - mean) * (other - mean) for one, other in pairwise(values)) / spread
    correlation = min(MOST_CORRELATED, max(0.0, alike))
    return len(values) * (1 - correlation) / (1 + correlation)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between two neighbours in proportion (Hyndman and Fan 1996, type 7): the same from both ends."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])
