"""Medians of paired measurements, with the interval that their noise leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A median, or a mean, and its 95 % interval."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.4f} ({self.low:.4f} to {self.high:.4f})"


def median(values: Sequence[float]) -> Interval:
    """The interval is the bootstrap's, over the values."""
    return _interval(values, np.median)


def mean(values: Sequence[float]) -> Interval:
    """Likewise. For what is done rarely and counts all the same, which a median does not see."""
    return _interval(values, np.mean)


def _interval(values: Sequence[float], statistic: Callable[..., Any]) -> Interval:
    found = np.asarray(values, float)
    chosen = np.random.default_rng(0).integers(len(found), size=(RESAMPLES, len(found)))
    low, high = np.quantile(statistic(found[chosen], axis=1), (0.025, 0.975))
    return Interval(float(statistic(found)), float(low), float(high))


def paired_ratio(of: Sequence[float], to: Sequence[float]) -> Interval:
    """`of` over `to`, round by round."""
    return median([one / other for one, other in zip(of, to, strict=True)])


def paired_difference(of: Sequence[float], less: Sequence[float]) -> Interval:
    """`of` less `less`, round by round."""
    return median([one - other for one, other in zip(of, less, strict=True)])


Groups = Sequence[Sequence[float]]
"""Values by group and turn: turns of one process are alike in what fell to it once and for all."""


def changed_ratio(after: tuple[Groups, Groups], before: tuple[Groups, Groups]) -> Interval:
    """What the ratio of two, group by group, became of what it was: 1 where nothing changed.

    The median over groups of each one's median ratio after over its median ratio before. The bootstrap draws groups
    first, and turns within each of those, before and after.
    """
    ratios, earlier = (np.asarray(of, float) / np.asarray(to, float) for of, to in (after, before))
    chance = np.random.default_rng(0)
    drawn = chance.integers(len(ratios), size=(RESAMPLES, len(ratios), 1))

    def medians(values: Any) -> Any:
        turns = chance.integers(values.shape[1], size=(RESAMPLES, *values.shape))
        return np.median(values[drawn, turns], axis=2)

    low, high = np.quantile(np.median(medians(ratios) / medians(earlier), axis=1), (0.025, 0.975))
    middle = np.median(np.median(ratios, axis=1) / np.median(earlier, axis=1))
    return Interval(float(middle), float(low), float(high))
