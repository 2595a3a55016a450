"""A histogram being filled: where something is observed event by event, its room keeps one and shows its value."""

from __future__ import annotations

import bisect
import math
import sys
from collections import Counter
from collections.abc import Sequence

from jaxobs.model.metrics import Exemplar, HistogramValue, bucket_index, upper_bound

MAX_VALUE = sys.float_info.max
"""Where a sum would become infinite it stays at this: a counter neither falls nor becomes infinite."""


class Histogram:
    """Counts finite values from 0 on in a metric's own buckets, and in exponential ones."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._exemplars: list[Exemplar | None] = [None] * len(self._counts)
        self._sum = 0.0
        self._zeros = 0
        self._exponential: Counter[int] = Counter()
        self._value: HistogramValue | None = None

    def observe(self, value: float, count: int = 1) -> None:
        """Add `count` observations of a value."""
        self._add(value, count)
        if value > 0:
            self._exponential[bucket_index(value)] += count
        else:
            self._zeros += count

    def observe_all(self, values: Sequence[float]) -> None:
        """Observe each of the values, a bucket at a time: a thousand may come in a second, in a few buckets."""
        ordered = sorted(values)
        begin = 0
        while begin < len(ordered):
            bucket = bisect.bisect_left(self._buckets, ordered[begin])
            is_last = bucket == len(self._buckets)
            end = len(ordered) if is_last else bisect.bisect_right(ordered, self._buckets[bucket], begin)
            mean = math.fsum(ordered[begin:end]) / (end - begin)
            self._add(min(max(mean, ordered[begin]), ordered[end - 1]), end - begin)
            begin = end
        begin = bisect.bisect_right(ordered, 0.0)
        self._zeros += begin
        while begin < len(ordered):
            index = bucket_index(ordered[begin])
            end = max(begin + 1, bisect.bisect_right(ordered, upper_bound(index), begin))
            self._exponential[index] += end - begin
            begin = end

    def _add(self, value: float, count: int) -> None:
        self._value = None
        self._counts[bisect.bisect_left(self._buckets, value)] += count
        self._sum = min(self._sum + value * count, MAX_VALUE)

    def exemplify(self, exemplar: Exemplar) -> None:
        """Attach the trace of an observed value to its bucket; a bucket without observations gets none."""
        bucket = bisect.bisect_left(self._buckets, exemplar.value)
        if self._counts[bucket] > 0:
            self._value = None
            self._exemplars[bucket] = exemplar

    def value(self) -> HistogramValue:
        """What was observed so far; the same object until more is observed."""
        if self._value is None:
            self._value = HistogramValue(
                tuple(self._counts), self._sum, tuple(self._exemplars), self._zeros, dict(self._exponential)
            )
        return self._value
