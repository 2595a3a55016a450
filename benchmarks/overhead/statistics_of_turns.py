"""Ratios of paired turns, with the interval that their noise leaves."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 10_000


class Ratio(NamedTuple):
    """The median of paired ratios and its 95 % interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4f} ({self.low:.4f} to {self.high:.4f})"


def paired_ratio(of: Sequence[float], to: Sequence[float]) -> Ratio:
    """`of` over `to`, turn by turn. The interval is the bootstrap's, over the pairs."""
    ratios = [one / other for one, other in zip(of, to, strict=True)]
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Ratio(statistics.median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)])
