"""Medians of paired measurements, with the interval that their noise leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000


class Interval(NamedTuple):
    """A median and its 95 % interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4f} ({self.low:.4f} to {self.high:.4f})"


def median(values: Sequence[float]) -> Interval:
    """The interval is the bootstrap's, over the values."""
    found = np.asarray(values, float)
    chosen = np.random.default_rng(0).integers(len(found), size=(RESAMPLES, len(found)))
    low, high = np.quantile(np.median(found[chosen], axis=1), (0.025, 0.975))
    return Interval(float(np.median(found)), float(low), float(high))


def paired_ratio(of: Sequence[float], to: Sequence[float]) -> Interval:
    """`of` over `to`, round by round."""
    return median([one / other for one, other in zip(of, to, strict=True)])


def paired_difference(of: Sequence[float], less: Sequence[float]) -> Interval:
    """`of` less `less`, round by round."""
    return median([one - other for one, other in zip(of, less, strict=True)])
