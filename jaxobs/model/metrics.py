"""Metrics, their values in a snapshot, and the catalogue. Names follow Prometheus: base units, `_total`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from jaxobs.model.hardware_forms import HardwareForm

Kind = Literal["counter", "gauge", "histogram"]
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Metric:
    """One entry of the catalogue.

    `name` is the Prometheus name, suffix included. `unit` is the base unit in words as it stands in the name
    (`seconds`, `bytes`, `ratio`, `flops_per_second`, …), empty where there is none. `buckets` are a histogram's upper
    bounds without `+Inf`, ascending. `hardware` is its form in OpenTelemetry's conventions for hardware, if it has one.
    Raises ValueError when name, kind, unit and buckets contradict each other.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    hardware: HardwareForm | None = None

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"metric name {self.name!r}: use lower-case letters, digits and underscores")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name}: counters, and only they, end in _total")
        if self.unit and not self.name.removesuffix("_total").endswith("_" + self.unit):
            raise ValueError(f"metric {self.name}: its name must end in its unit {self.unit!r}")
        ascend = list(self.buckets) == sorted(set(self.buckets))
        if (self.kind == "histogram") != bool(self.buckets) or not ascend:
            raise ValueError(f"metric {self.name}: histograms, and only they, have ascending buckets")
        for label in self.labels:
            if not _NAME.match(label) or label in {"le", "quantile"}:
                raise ValueError(f"metric {self.name}: label {label!r} is not allowed")


UNITS = (
    "flops_per_second", "bytes_per_second", "flops_per_byte", "seconds", "bytes", "ratio", "flops", "arrays", "watts",
    "joules", "hertz", "celsius", "cpus",
)  # fmt: skip
"""Units that the end of a name tells, the longest first."""


def metric(
    signature: str, told: str, buckets: tuple[float, ...] = (), *, hardware: HardwareForm | None = None
) -> Metric:
    """A metric as Prometheus shows it, `name{label,label}`, with what it tells: its kind and unit are told by its name.

    A counter where that ends in `_total`, a histogram where there are buckets, else a gauge.
    """
    name, _, labels = signature.rstrip("}").partition("{")
    base = name.removesuffix("_total")
    kind: Kind = "histogram" if buckets else "counter" if base != name else "gauge"
    unit = next((unit for unit in UNITS if base.endswith(f"_{unit}")), "")
    return Metric(name, kind, told, tuple(labels.split(",")) if labels else (), unit, buckets, hardware)


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One observation of a histogram with the trace it belongs to; `wall_time` in seconds since the Unix epoch."""

    trace_id: str
    span_id: str
    value: float
    wall_time: float


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """A histogram's observations: `counts` has one entry per bucket plus one for `+Inf`, not cumulative.

    `exemplars` are aligned with `counts`.
    """

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


SUFFIXES: Mapping[Kind, tuple[str, ...]] = {
    "counter": ("", "_total", "_created"),
    "gauge": ("",),
    "histogram": ("", "_bucket", "_count", "_sum", "_created"),
}
"""Suffixes of the names of a family's samples; no other family may have one of these names (OpenMetrics 1.0, section
"Suffixes"). A counter's family is its name without `_total`."""

RESERVED = frozenset({"target", "target_info"})
"""Names of the information metric that every page has."""


def rendered_names(metric: Metric) -> set[str]:
    """All names of this metric on a page: those of its family and its samples."""
    family = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    return {family + suffix for suffix in SUFFIXES[metric.kind]}


class Catalogue:
    """The catalogue of all metrics that exist: the core's plus those of the loaded plugins."""

    def __init__(self, metrics: Iterable[Metric] = ()) -> None:
        self._metrics: dict[str, Metric] = {}
        self._owners: dict[str, str] = {}
        self._rendered: dict[str, str] = {}
        self.declare(metrics)

    def declare(self, metrics: Iterable[Metric], owner: str = "") -> None:
        """Add all of them, or none. `owner` is the plugin that declares them; the core has none.

        Raises ValueError where a metric is declared already and differently, or where its family or one of its samples
        would have a name that another metric has on a page.
        """
        new: dict[str, Metric] = {}
        rendered: dict[str, str] = {}
        for metric in metrics:
            known = self._metrics.get(metric.name) or new.get(metric.name)
            if known is not None:
                if known != metric:
                    raise ValueError(f"metric {metric.name} is already declared, and differently")
                continue
            for name in sorted(rendered_names(metric)):
                other = self._rendered.get(name) or rendered.get(name)
                if other is not None or name in RESERVED:
                    raise ValueError(f"metric {metric.name} and {other or name} would both show {name}")
                rendered[name] = f"metric {metric.name}"
            new[metric.name] = metric
        self._metrics = dict(sorted((self._metrics | new).items()))
        self._rendered |= rendered
        self._owners |= dict.fromkeys(new, owner)

    def get(self, name: str) -> Metric | None:
        return self._metrics.get(name)

    def __getitem__(self, name: str) -> Metric:
        return self._metrics[name]

    def owner(self, name: str) -> str:
        """The plugin that declared a metric first; empty where the core did, or nobody."""
        return self._owners.get(name, "")

    def __iter__(self) -> Iterator[Metric]:
        """In the order of names."""
        return iter(self._metrics.values())


Quantity = Literal[
    "utilization", "clock", "clock_limit", "memory_clock", "memory_clock_limit", "power", "power_limit", "throttled",
    "slowdown",
]  # fmt: skip
"""Ratios are from 0 to 1, clocks in hertz, power in watts. `clock` is that of the units that compute, `clock_limit` the
device's highest. `throttled` is 1 while the reason in its label `reason` holds the clocks down; `slowdown` is the share
of the device's speed that is taken away, where only that is reported."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """A quantity of a device and its metric, a gauge with the label `device`, which is JAX's local ordinal as text.

    Only series whose labels have the values in `where` count; for `throttled`, only those with one of `reasons`,
    because an idle device is not held down. Raises ValueError where the metric has no such labels.
    """

    quantity: Quantity
    metric: Metric
    where: tuple[tuple[str, str], ...] = ()
    reasons: Collection[str] = ()

    def __post_init__(self) -> None:
        needed = {"device", *dict(self.where)} | ({"reason"} if self.quantity == "throttled" else set())
        if missing := sorted(needed - set(self.metric.labels)):
            raise ValueError(
                f"{self.metric.name} tells no {self.quantity}: it lacks labels {', '.join(missing)}"
            )
