"""Ratios of paired turns, with the interval that their noise and that of the processes leave."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 4_000
"""The ends of the interval then differ by less than a tenth of its width from run to run."""


class Ratio(NamedTuple):
    """The median of paired ratios and its 95 % interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4f} ({self.low:.4f} to {self.high:.4f})"


def ratio_of_generations(of: Sequence[Sequence[float]], to: Sequence[Sequence[float]]) -> Ratio:
    """The median of `of` over `to`, turn by turn, in all generations.

    Turns of one process are alike in what fell to it once and for all, such as where its memory lies. So the bootstrap
    draws generations first, and turns within each of those.
    """
    ratios = [[one / other for one, other in zip(*pair, strict=True)] for pair in zip(of, to, strict=True)]
    chance = random.Random(0)
    medians = sorted(
        statistics.median(
            ratio
            for drawn in chance.choices(ratios, k=len(ratios))
            for ratio in chance.choices(drawn, k=len(drawn))
        )
        for _ in range(RESAMPLES)
    )
    median = statistics.median(ratio for generation in ratios for ratio in generation)
    return Ratio(median, medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)])
