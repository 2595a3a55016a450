"""What a metric is, and the values that a snapshot holds of it. Names follow Prometheus: base units, `_total`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue.

    `name` is the Prometheus name, suffix included. `unit` is the base unit in words as it stands in the name
    (`seconds`, `bytes`, `ratio`, `flops_per_second`, …), empty where there is none. `buckets` are a histogram's upper
    bounds without `+Inf`, ascending. Raises ValueError when name, kind, unit and buckets contradict each other.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"metric name {self.name!r}: use lower-case letters, digits and underscores")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name}: counters, and only they, end in _total")
        if self.unit and not self.name.removesuffix("_total").endswith("_" + self.unit):
            raise ValueError(f"metric {self.name}: its name must end in its unit {self.unit!r}")
        if (self.kind == "histogram") != bool(self.buckets) or list(self.buckets) != sorted(
            set(self.buckets)
        ):
            raise ValueError(f"metric {self.name}: histograms, and only they, have ascending buckets")
        for label in self.labels:
            if not _NAME.match(label) or label in {"le", "quantile"}:
                raise ValueError(f"metric {self.name}: label {label!r} is not allowed")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One observation of a histogram with the trace it belongs to; `wall_time` in seconds since the Unix epoch."""

    trace_id: str
    span_id: str
    value: float
    wall_time: float


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """`counts` has one entry a bucket plus one for `+Inf`, not cumulative; `exemplars` are aligned with it."""

    counts: tuple[int, ...]
    sum: float
    exemplars: tuple[Exemplar | None, ...] = ()

    @property
    def count(self) -> int:
        return sum(self.counts)


Value = float | HistogramValue


@dataclass(frozen=True, slots=True)
class Family:
    """A metric and its series: label values (in the metric's label order) to value."""

    metric: Metric
    series: Mapping[tuple[str, ...], Value]


class Catalogue:
    """The one truth on which metrics exist: the core's plus those of the loaded plugins."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        self._metrics: dict[str, Metric] = {}
        for metric in metrics:
            self.add(metric)

    def add(self, metric: Metric) -> None:
        """Raises ValueError where another metric of that name was declared, or one that OpenMetrics cannot tell from it.

        There a counter's family is its name without `_total`.
        """
        family = metric.name.removesuffix("_total")
        for other in (family, family + "_total"):
            if other != metric.name and other in self._metrics:
                raise ValueError(f"metric {metric.name} and metric {other} are one family in OpenMetrics")
        known = self._metrics.setdefault(metric.name, metric)
        if known != metric:
            raise ValueError(f"metric {metric.name} is already declared, and differently")

    def get(self, name: str) -> Metric | None:
        return self._metrics.get(name)

    def __iter__(self) -> Iterator[Metric]:
        return iter(sorted(self._metrics.values(), key=lambda metric: metric.name))

    def __len__(self) -> int:
        return len(self._metrics)
