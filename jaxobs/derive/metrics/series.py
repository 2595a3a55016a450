"""The values of all metrics, by labels, within a limit on how many series there are."""

from __future__ import annotations

import bisect
import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from jaxobs.derive.metrics import catalogue as core
from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.refusal import Refusals
from jaxobs.model.metrics import (
    Catalogue,
    Exemplar,
    Family,
    HistogramValue,
    Metric,
    Value,
    bucket_index,
    upper_bound,
)
from jaxobs.vocabulary.labels import OTHER, clean_label

Labels = tuple[str, ...]

_DERIVED = frozenset(metric.name for metric in core.CORE_METRICS)

PLUGIN_SHARE = 0.25
"""Of the limit, for each plugin: NVML's has some 60 series for each of eight devices."""

NONE: Mapping[Labels, float] = MappingProxyType({})

LARGEST = sys.float_info.max
"""Where a sum would become infinite it stays here: a counter neither falls nor says infinity."""


@dataclass(slots=True)
class Histogram:
    """A histogram being filled."""

    counts: list[int]
    sum: float = 0.0
    exemplars: list[Exemplar | None] = field(default_factory=list)
    zeros: int = 0
    exponential: Counter[int] = field(default_factory=Counter)

    def add(self, value: float, count: int) -> None:
        """To the exponential buckets."""
        if value > 0:
            self.exponential[bucket_index(value)] += count
        else:
            self.zeros += count

    def add_ordered(self, values: Sequence[float]) -> None:
        """Add many values, the smallest first, a bucket at a time: a second may have a thousand, in a few buckets."""
        begin = bisect.bisect_right(values, 0.0)
        self.zeros += begin
        while begin < len(values):
            index = bucket_index(values[begin])
            end = max(begin + 1, bisect.bisect_right(values, upper_bound(index), begin))
            self.exponential[index] += end - begin
            begin = end

    def value(self) -> HistogramValue:
        return HistogramValue(
            tuple(self.counts), self.sum, tuple(self.exemplars), self.zeros, dict(self.exponential)
        )


class Series:
    """Counters, gauges and histograms of the catalogue. Values that are no finite number are refused and counted.

    The core may have `limit` series, and each plugin a share of it on top: none takes the place of another. Beyond that,
    counters go to a series whose labels are all `__other__`, gauges and histograms are dropped; both are counted in
    `jaxobs_series_limited_total`. Who deserves a series is decided before (`selection.py`).
    """

    def __init__(self, catalogue: Catalogue, limit: int) -> None:
        self.catalogue = catalogue
        self.refused = 0
        self.refusals = Refusals()
        self._limit = limit
        self._counts: Counter[str] = Counter()  # by owner
        self._plain: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, Histogram]] = {}
        self._limited: dict[str, int] = {}
        self._totals: dict[tuple[str, Labels], float] = {}
        self._families: dict[str, Family] = {}
        """Those of the last snapshot that still hold: a series that changes takes its family out."""

    def refuse(self, reason: str) -> None:
        self.refused += 1
        self.refusals.note(reason)

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """To a counter. A negative value is refused: a counter never falls."""
        if not (math.isfinite(value) and value >= 0):
            self.refuse(f"{metric.name}: {value:g} is no finite number from 0 on")
            return
        if not value and labels in self._plain.get(metric.name, ()):
            return
        series = self._changing(metric)
        labels = self._admitted(metric, labels, series) or (OTHER,) * len(metric.labels)
        series[labels] = min(series.get(labels, 0.0) + value, LARGEST)

    def total(self, metric: Metric, labels: Labels, value: float, of: Labels | None = None) -> None:
        """A counter that is kept elsewhere; it only ever rises.

        `of`: whose it is, where that may get other labels. What is new goes to those it has now, so that no series falls.
        """
        if not math.isfinite(value):
            self.refuse(f"{metric.name}: {value:g} is no finite number")
            return
        # Compared with what was given, not with the series: beyond the limit that is everybody's.
        key = (metric.name, labels if of is None else of)
        before = self._totals.get(key, 0.0)
        self.add(metric, labels, max(0.0, value - before))
        self._totals[key] = max(before, value)

    def set(self, metric: Metric, labels: Labels, value: float | None) -> None:
        """A gauge; None or a value that is no finite number takes the series away."""
        known = self._plain.get(metric.name, NONE)
        if value is None or not math.isfinite(value):
            if (gone := clean(labels)) in known:
                del self._changing(metric)[gone]
                self._counts[self.catalogue.owner(metric.name)] -= 1
        elif known.get(labels) != value:
            series = self._changing(metric)
            admitted = self._admitted(metric, labels, series)
            if admitted is not None:
                series[admitted] = float(value)

    def replace(self, metric: Metric, values: Iterable[tuple[Labels, float | None]]) -> None:
        """All series of a gauge at once: those not given go."""
        known = self._plain.get(metric.name, NONE)
        given = {labels: value for labels, value in values if value is not None and math.isfinite(value)}
        if given == known:
            return
        self._counts[self.catalogue.owner(metric.name)] -= len(known)
        self._changing(metric).clear()
        for labels, value in given.items():
            self.set(metric, labels, value)

    def observe(self, metric: Metric, labels: Labels, value: float, count: int = 1) -> None:
        """`count` observations of a value in a histogram."""
        histogram = self._histogram(metric, labels, value)
        if histogram is not None:
            self._count(histogram, metric, value, count)
            histogram.add(value, count)

    def _histogram(self, metric: Metric, labels: Labels, value: float) -> Histogram | None:
        """Where a value is observed; None where it is refused, or beyond the limit."""
        if not (math.isfinite(value) and value >= 0):
            self.refuse(f"{metric.name}: {value:g} is no finite number from 0 on")
            return None
        self._families.pop(metric.name, None)
        series = self._histograms.setdefault(metric.name, {})
        admitted = self._admitted(metric, labels, series)
        if admitted is None:
            return None
        histogram = series.get(admitted)
        if histogram is None:
            histogram = series[admitted] = Histogram([0] * (len(metric.buckets) + 1))
            histogram.exemplars = [None] * len(histogram.counts)
        return histogram

    @staticmethod
    def _count(histogram: Histogram, metric: Metric, value: float, count: int) -> None:
        bucket = bisect.bisect_left(metric.buckets, value)
        histogram.counts[bucket] += count
        histogram.sum = min(histogram.sum + value * count, LARGEST)

    def observe_all(self, metric: Metric, labels: Labels, values: Sequence[float]) -> None:
        """One observation of each value, none of which may be refused for another."""
        ordered = sorted(values)
        if not math.isfinite(sum(ordered)) or ordered[0] < 0:
            for value in values:
                self.observe(metric, labels, value)
            return
        histogram = self._histogram(metric, labels, ordered[-1])
        if histogram is None:
            return
        begin = 0
        while begin < len(ordered):
            bucket = bisect.bisect_left(metric.buckets, ordered[begin])
            last = bucket == len(metric.buckets)
            end = len(ordered) if last else bisect.bisect_right(ordered, metric.buckets[bucket], begin)
            mean = math.fsum(ordered[begin:end]) / (end - begin)
            self._count(histogram, metric, min(max(mean, ordered[begin]), ordered[end - 1]), end - begin)
            begin = end
        histogram.add_ordered(ordered)

    def exemplify(self, metric: Metric, labels: Labels, exemplar: Exemplar) -> None:
        """Point the bucket of a value that was observed to its trace; a bucket without observations gets none."""
        histogram = self._histograms.get(metric.name, {}).get(clean(labels))
        bucket = bisect.bisect_left(metric.buckets, exemplar.value)
        if histogram is not None and histogram.counts[bucket] > 0:
            self._families.pop(metric.name, None)
            histogram.exemplars[bucket] = exemplar

    def measured(self, name: str, labels: Labels, value: float) -> None:
        """A plugin's value, by the type that its metric was declared with.

        Refused where it was not declared so, and where the metric is one that the core derives.
        """
        metric = self.catalogue.get(name)
        if metric is None or len(labels) != len(metric.labels) or name in _DERIVED:
            self.refuse(f"{name}: no plugin has declared it with {len(labels)} labels")
        elif metric.kind == "counter":
            self.add(metric, labels, value)
        elif metric.kind == "gauge":
            self.set(metric, labels, value)
        else:
            self.observe(metric, labels, value)

    def gauges(self, name: str) -> Mapping[Labels, float]:
        """The series of a counter or gauge as they are now."""
        return self._plain.get(name, {})

    def families(self) -> tuple[Family, ...]:
        """All that have series, in the order of names. They stay as they are now, whatever changes later."""
        if self._limited:
            limited = self._changing(process_metrics.SERIES_LIMITED)
            limited.update({(name,): float(count) for name, count in self._limited.items()})
        families = (self._families.get(metric.name) or self._family(metric) for metric in self.catalogue)
        return tuple(family for family in families if family.series)

    def _family(self, metric: Metric) -> Family:
        series: Mapping[Labels, Value] = self._plain.get(metric.name, NONE)
        if metric.kind == "histogram":
            histograms = self._histograms.get(metric.name, {})
            series = {labels: kept.value() for labels, kept in histograms.items()}
        family = self._families[metric.name] = Family(metric, series)
        return family

    def _changing(self, metric: Metric) -> dict[Labels, float]:
        """The series of a counter or gauge, to be changed: a copy where a snapshot holds them as they were."""
        if self._families.pop(metric.name, None) is not None:
            self._plain[metric.name] = dict(self._plain.get(metric.name, NONE))
        return self._plain.setdefault(metric.name, {})

    def _admitted(
        self, metric: Metric, labels: Labels, series: dict[Labels, float] | dict[Labels, Histogram]
    ) -> Labels | None:
        if labels in series:
            return labels  # what stands there is clean, and so is what equals it
        labels = clean(labels)
        if labels in series:
            return labels
        weight = len(metric.buckets) + 3 if metric.kind == "histogram" else 1
        owner = self.catalogue.owner(metric.name)
        limit = self._limit if not owner else int(PLUGIN_SHARE * self._limit)
        if self._counts[owner] + weight > limit:
            self._limited[metric.name] = self._limited.get(metric.name, 0) + 1
            return None
        self._counts[owner] += weight
        return labels


def clean(labels: Labels) -> Labels:
    """Labels that every exporter can carry."""
    return tuple(clean_label(label) for label in labels)
