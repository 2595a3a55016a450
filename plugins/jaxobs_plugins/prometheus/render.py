"""Renders a snapshot's metrics in the two formats that Prometheus reads, and chooses between them. Pure functions.

Formats: the Prometheus text format 0.0.4, and OpenMetrics 1.0, which alone carries exemplars and units. A client gets
OpenMetrics where it names it, and the plainest where it names neither: a scraper that reads it after all is better off
than with an error. The `choose_encoder` and `gzip_accepted` of prometheus_client ignore weights (as of 0.26): who
refuses OpenMetrics by `q=0` would get it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from jaxobs.model.metrics import Exemplar as Observed
from jaxobs.model.metrics import Family, HistogramValue
from jaxobs.vocabulary.text import clean_label, valid_text

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as RenderedFamily

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_REFUSED = re.compile(r"q=0(\.0*)?")

# prometheus_client has no types for these two.
_openmetrics: Callable[[Collector], bytes] = generate_openmetrics
_number: Callable[[float], str] = floatToGoString


def render(families: Iterable[Family], resource: Mapping[str, str], content_type: str) -> bytes:
    """Render a snapshot's `families`, and `target_info` from `resource` (dotted names), as `TEXT` or `OPENMETRICS`.

    The core has made sure that values are numbers of their metric's kind, and that labels are short and valid text.
    """
    source = _Source(families, resource)
    return _openmetrics(source) if content_type == OPENMETRICS else generate_latest(source)


class _Source(Collector):
    """The collector that prometheus_client renders, in place of a registry."""

    def __init__(self, families: Iterable[Family], resource: Mapping[str, str]) -> None:
        self._families = families
        self._resource = resource

    def collect(self) -> Iterator[RenderedFamily]:
        if self._resource:
            labels = {label_name(name): clean_label(value) for name, value in sorted(self._resource.items())}
            yield InfoMetricFamily("target", "Which process this is and where it runs.", value=labels)
        for family in self._families:
            yield (_histogram if family.metric.kind == "histogram" else _counter_or_gauge)(family)


def _counter_or_gauge(family: Family) -> RenderedFamily:
    metric = family.metric
    is_counter = metric.kind == "counter"
    name = metric.name.removesuffix("_total") if is_counter else metric.name
    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
    rendered = kind(name, valid_text(metric.help), labels=metric.labels, unit=metric.unit)
    for labels, value in family.series.items():
        assert not isinstance(value, HistogramValue)
        rendered.add_metric(labels, value)
    return rendered


def _histogram(family: Family) -> RenderedFamily:
    metric = family.metric
    rendered = HistogramMetricFamily(
        metric.name, valid_text(metric.help), labels=metric.labels, unit=metric.unit
    )
    bounds = [_number(bound) for bound in (*metric.buckets, math.inf)]
    for labels, value in family.series.items():
        assert isinstance(value, HistogramValue)
        totals = itertools.accumulate(value.counts)
        exemplars = value.exemplars or (None,) * len(bounds)
        buckets = [
            (bound, total) if seen is None else (bound, total, _exemplar(seen))
            for bound, total, seen in zip(bounds, totals, exemplars, strict=True)
        ]
        rendered.add_metric(labels, buckets, value.sum)
    return rendered


def _exemplar(seen: Observed) -> Exemplar:
    return Exemplar({"trace_id": seen.trace_id, "span_id": seen.span_id}, seen.value, seen.wall_time)


def label_name(dotted: str) -> str:
    """An OpenTelemetry attribute name as a Prometheus label name: `service.name` becomes `service_name`."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", dotted)
    return f"_{name}" if name[:1].isdigit() else name


def negotiate(accept: str) -> str:
    """The content type for an `Accept` header: OpenMetrics where it is named, else plain text."""
    return OPENMETRICS if _names(accept, OPENMETRICS.partition(";")[0]) else TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header names gzip."""
    return _names(accept_encoding, "gzip")


def _names(header: str, name: str) -> bool:
    """Whether a header lists a name, and does not refuse it by a weight of 0. Versions do not count."""
    elements = ([part.strip() for part in element.split(";")] for element in header.lower().split(","))
    return any(listed == name and not any(map(_REFUSED.fullmatch, more)) for listed, *more in elements)
