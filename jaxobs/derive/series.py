"""The values of all metrics by their labels: series, the histograms in them, and who has a series of its own."""

from __future__ import annotations

import bisect
import heapq
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Generic, TypeVar

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.refusal import Refusals, is_amount
from jaxobs.model.metrics import Catalogue, Exemplar, Family, HistogramValue, Metric
from jaxobs.vocabulary.text import OTHER, clean_label

Labels = tuple[str, ...]

_DERIVED = frozenset(metric.name for metric in CORE_METRICS)

PLUGIN_SHARE = 0.25
"""Share of the limit that each plugin has on top: NVML's has some 60 series for each of eight devices."""

MAX_VALUE = sys.float_info.max
"""Where a sum would become infinite it stays at this: a counter neither falls nor becomes infinite."""

Key = TypeVar("Key", bound=Hashable)

HYSTERESIS = 2.0
"""How many times the weight of the least of the chosen a newcomer needs to displace it from among the series: one that
comes and goes makes `rate()` wrong."""


class Histogram:
    """Counts finite values from 0 on in a metric's own buckets."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._exemplars: list[Exemplar | None] = [None] * len(self._counts)
        self._sum = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """Add `count` observations of a value."""
        self._counts[bisect.bisect_left(self._buckets, value)] += count
        self._sum = min(self._sum + value * count, MAX_VALUE)

    def observe_all(self, values: Sequence[float]) -> None:
        """Observe each of the values, a bucket at a time: a thousand may come in a second."""
        ordered = sorted(values)
        within = [bisect.bisect_right(ordered, bound) for bound in self._buckets]
        for bucket, (before, until) in enumerate(pairwise([0, *within, len(ordered)])):
            self._counts[bucket] += until - before
        self._sum = min(self._sum + math.fsum(ordered), MAX_VALUE)

    def exemplify(self, exemplar: Exemplar) -> None:
        """Attach the trace of an observed value to its bucket; a bucket without observations gets none."""
        bucket = bisect.bisect_left(self._buckets, exemplar.value)
        if self._counts[bucket] > 0:
            self._exemplars[bucket] = exemplar

    def value(self, *, exemplars: bool = True) -> HistogramValue:
        """What was observed so far."""
        return HistogramValue(tuple(self._counts), self._sum, tuple(self._exemplars) if exemplars else ())


class Series:
    """Counters, gauges and histograms of the catalogue. Values that are no finite number are refused and counted.

    The core may have `limit` series, and each plugin a share of it on top, so that none takes the place of another.
    Beyond that, counters go to a series whose labels are all `__other__`, gauges and histograms are dropped; both are
    counted in `jaxobs_series_limited_total`. What deserves a series is decided before that (`Heaviest`).
    """

    def __init__(self, catalogue: Catalogue, limit: int) -> None:
        self.catalogue = catalogue
        self.refusals = Refusals()
        self._limit = limit
        self._counts: Counter[str] = Counter()  # series by owner: a plugin, or "" for the core
        self._plain: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
        self._histograms: defaultdict[str, dict[Labels, Histogram]] = defaultdict(dict)
        self._totals: dict[tuple[str, Labels], float] = {}
        self._families: dict[str, Family] = {}
        """Families of the last snapshot."""
        self.exemplars = True
        """Whether the spans are sent to where the exemplars' trace ids open them."""

    def add(self, name: str, labels: Labels, value: float) -> None:
        """Add a finite value from 0 on to a counter, which never falls."""
        series = self._plain[name]
        labels = self._admitted(name, labels, series) or (OTHER,) * len(self.catalogue[name].labels)
        series[labels] = min(series.get(labels, 0.0) + value, MAX_VALUE)

    def total(self, name: str, labels: Labels, value: float | None, of: Labels | None = None) -> None:
        """Raise a counter to a total that is kept elsewhere; None, or a total lower than before, adds nothing.

        `of` identifies what is counted, where its labels may change: the rise goes to the labels it has now, so that no
        series falls.
        """
        if value is None:
            return
        if not math.isfinite(value):
            self.refusals.refuse(f"{name}: {value:g} is no finite number")
            return
        # Compared with the last total given, not with the series, which beyond the limit is shared with others.
        key = (name, labels if of is None else of)
        before = self._totals.get(key, 0.0)
        self.add(name, labels, max(0.0, value - before))
        self._totals[key] = max(before, value)

    def set(self, name: str, labels: Labels, value: float | None) -> None:
        """Set a gauge; None, or a value that is no finite number, removes the series."""
        series = self._plain[name]
        if value is None or not math.isfinite(value):
            if series.pop(clean(labels), None) is not None:
                self._counts[self.catalogue.owner(name)] -= 1
        elif (admitted := self._admitted(name, labels, series)) is not None:
            series[admitted] = float(value)

    def replace(self, name: str, values: Iterable[tuple[Labels, float | None]]) -> None:
        """Set all series of a gauge at once; those not given are removed."""
        known = self._plain[name]
        given = {labels: value for labels, value in values if value is not None and math.isfinite(value)}
        if given == known:
            return
        self._counts[self.catalogue.owner(name)] -= len(known)
        known.clear()
        for labels, value in given.items():
            self.set(name, labels, value)

    def withdraw(self, owner: str) -> None:
        """Remove all gauges of a plugin that has fallen silent: their last values say nothing of now."""
        for metric in self.catalogue:
            if metric.kind == "gauge" and self.catalogue.owner(metric.name) == owner:
                self.replace(metric.name, ())

    def show(self, name: str, labels: Labels, histogram: Histogram) -> None:
        """Show what this histogram has observed, from now on; beyond the limit on series it is dropped."""
        known = self._histograms[name]
        admitted = self._admitted(name, labels, known)
        if admitted is not None:
            known[admitted] = histogram

    def observe(self, name: str, labels: Labels, value: float) -> None:
        """Add an observation, a finite value from 0 on, to a histogram."""
        known, labels = self._histograms[name], clean(labels)
        if labels not in known:
            self.show(name, labels, Histogram(self.catalogue[name].buckets))
        if labels in known:
            known[labels].observe(value)

    def measured(self, name: str, labels: Labels, value: float) -> None:
        """Take a plugin's value: add, set or observe it, by the kind that its metric was declared with.

        It is refused where no metric was declared with such labels, where the core derives the metric, and, of a counter
        or histogram, where it is negative or not finite.
        """
        metric = self.catalogue.get(name)
        if metric is None or len(labels) != len(metric.labels) or name in _DERIVED:
            self.refusals.refuse(f"{name}: no plugin has declared it with {len(labels)} labels")
        elif metric.kind == "gauge":
            self.set(name, labels, value)
        elif not is_amount(value):
            self.refusals.refuse(f"{name}: {value:g} is no finite number from 0 on")
        elif metric.kind == "counter":
            self.add(name, labels, value)
        else:
            self.observe(name, labels, value)

    def gauges(self, name: str) -> Mapping[Labels, float]:
        """The present series of a counter or gauge."""
        return self._plain[name]

    def families(self) -> tuple[Family, ...]:
        """All metrics that have series, in the order of names, as they are now: later changes do not affect them."""
        return tuple(family for metric in self.catalogue if (family := self._family(metric)).series)

    def _family(self, metric: Metric) -> Family:
        """The metric's family: that of the last snapshot where nothing in it has changed."""
        shown: Mapping[Labels, float | HistogramValue] = (
            {key: each.value(exemplars=self.exemplars) for key, each in self._histograms[metric.name].items()}
            if metric.kind == "histogram"
            else self._plain[metric.name]
        )
        family = self._families.get(metric.name)
        if family is None or family.series != shown:
            family = self._families[metric.name] = Family(metric, dict(shown))
        return family

    def _admitted(
        self, name: str, labels: Labels, series: Mapping[Labels, float] | Mapping[Labels, Histogram]
    ) -> Labels | None:
        if labels in series:
            return labels  # labels of a series are clean, and so are labels equal to them
        labels = clean(labels)
        if labels in series:
            return labels
        buckets, owner = self.catalogue[name].buckets, self.catalogue.owner(name)
        weight = len(buckets) + 3 if buckets else 1
        limit = self._limit if not owner else int(PLUGIN_SHARE * self._limit)
        if self._counts[owner] + weight > limit:
            limited = self._plain["jaxobs_series_limited_total"]
            limited[name,] = limited.get((name,), 0.0) + 1
            return None
        self._counts[owner] += weight
        return labels


def clean(labels: Labels) -> Labels:
    """Labels that every exporter can carry."""
    return tuple(clean_label(label) for label in labels)


class Heaviest(Generic[Key]):
    """The `limit` heaviest keys by weight (seconds, else what stands in for them), not those that came first.

    Weights are compared left to right. A key displaces one of the chosen where it weighs more than `hysteresis` times as
    much.
    """

    def __init__(self, limit: int, hysteresis: float = HYSTERESIS) -> None:
        self._limit = limit
        self._hysteresis = hysteresis
        self._chosen: dict[Key, None] = {}

    def choose(
        self, weights: Mapping[Key, tuple[float, ...]], changed: Iterable[Key] | None = None
    ) -> list[Key]:
        """The chosen keys, of equal ones the old first.

        `changed`: the keys whose weight differs from the last call, if no key has gone since. Only they can come in, so
        the cost grows with their number; a key whose weight has fallen keeps its place until another rises.
        """
        old = {key: None for key in self._chosen if key in weights}

        def weight(key: Key) -> tuple[float, ...]:
            return tuple(self._hysteresis * part for part in weights[key]) if key in old else weights[key]

        candidates = {**old, **dict.fromkeys(weights if changed is None else changed)}
        self._chosen = dict.fromkeys(heapq.nlargest(self._limit, candidates, key=weight))
        return list(self._chosen)
