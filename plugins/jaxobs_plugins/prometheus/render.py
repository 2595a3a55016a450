"""Renders a snapshot's metrics in the two formats that Prometheus reads, and chooses between them. Pure functions.

Formats: the Prometheus text format 0.0.4, and OpenMetrics 1.0, which alone carries exemplars and units. The choice is
by what the client accepts (RFC 9110, section 12.5), and is no use of prometheus_client's own `choose_encoder` and
`gzip_accepted`, which ignore weights (as of 0.26): a client that refuses OpenMetrics by `q=0` would get it. A client that
refuses every format gets the plainest, as the RFC allows: a scraper that reads it after all is better off than with an
error.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

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
from jaxobs.model.metrics import Family, HistogramValue, Metric

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as RenderedFamily

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

LABEL_LENGTH = 256
"""Characters of a label value. A longer one is of no use on a dashboard."""

_DIGEST_LENGTH = 8  # 32 bits: among 10 000 altered values of one label a collision has a chance of about 1 %

_EXEMPLAR_LENGTH = 128
"""Characters of an exemplar's label names and values together: the limit of OpenMetrics 1.0."""

_LAST_TIMESTAMP = 1e12
"""Seconds; beyond it, a float is written with an exponent, which a timestamp must not have."""

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?')  # the last one may not be closed: so no quote is looked at twice
_DELIMITERS = re.compile(r'[",;=\\]')
_WEIGHT = re.compile(r"0?\.\d+|0\.?|1(\.0*)?")

# OpenMetrics 0.0.1 is what Prometheus before 2.35 asks for; its text is the same as that of the version sent.
_VERSIONS = {TEXT: ("0.0.4",), OPENMETRICS: ("1.0.0", "0.0.1")}

# prometheus_client has no types for these two.
_openmetrics: Callable[[Collector], bytes] = generate_openmetrics
_number: Callable[[float], str] = floatToGoString

Series = tuple[list[str], float | HistogramValue]


def render(families: Iterable[Family], resource: Mapping[str, str], content_type: str) -> bytes:
    """Render `families`, and `target_info` from `resource` (dotted names), as `TEXT` or `OPENMETRICS`.

    A series whose value is not a number, or that the format cannot express (a negative counter), is left out.
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
            yield _target_info(self._resource)
        for family in self._families:
            series = list(_valid_series(family))
            if series:
                build = _histogram if family.metric.kind == "histogram" else _counter_or_gauge
                yield build(family.metric, series)


def _target_info(resource: Mapping[str, str]) -> RenderedFamily:
    labels = {label_name(name): label_value(str(value)) for name, value in sorted(resource.items())}
    return InfoMetricFamily("target", "Which process this is and where it runs.", value=labels)


def _valid_series(family: Family) -> Iterator[Series]:
    """The valid series, without those whose labels repeat an earlier one's."""
    metric, seen = family.metric, set()
    for values, value in family.series.items():
        labels = [label_value(text) for text in values]
        identity = tuple(labels)
        if len(labels) == len(metric.labels) and identity not in seen and _is_valid(metric, value):
            seen.add(identity)
            yield labels, value


def _is_valid(metric: Metric, value: float | HistogramValue) -> bool:
    if isinstance(value, HistogramValue):
        return (
            metric.kind == "histogram"
            and len(value.counts) == len(metric.buckets) + 1
            and min(value.counts) >= 0
            and not math.isnan(value.sum)
            and (value.sum >= 0 or metric.buckets[0] < 0)
        )
    if metric.kind == "counter":
        return value >= 0  # false for NaN too
    return metric.kind == "gauge" and not math.isnan(value)


def _counter_or_gauge(metric: Metric, series: Iterable[Series]) -> RenderedFamily:
    is_counter = metric.kind == "counter"
    name = metric.name.removesuffix("_total") if is_counter else metric.name
    kind = CounterMetricFamily if is_counter else GaugeMetricFamily
    family = kind(name, valid_unicode(metric.help), labels=metric.labels, unit=metric.unit)
    for labels, value in series:
        assert not isinstance(value, HistogramValue)
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, series: Iterable[Series]) -> RenderedFamily:
    family = HistogramMetricFamily(
        metric.name, valid_unicode(metric.help), labels=metric.labels, unit=metric.unit
    )
    bounds = [_number(bound) for bound in (*metric.buckets, math.inf)]
    for labels, value in series:
        assert isinstance(value, HistogramValue)
        family.add_metric(labels, _cumulative(bounds, value), value.sum)
    return family


def _cumulative(
    bounds: list[str], value: HistogramValue
) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    total = 0
    exemplars = value.exemplars if len(value.exemplars) == len(bounds) else (None,) * len(bounds)
    for bound, count, observed in zip(bounds, value.counts, exemplars, strict=True):
        total += count
        exemplar = _exemplar(observed)
        buckets.append((bound, total) if exemplar is None else (bound, total, exemplar))
    return buckets


def _exemplar(observed: Observed | None) -> Exemplar | None:
    """An exemplar in prometheus_client's form; None where OpenMetrics cannot express it."""
    if observed is None or math.isnan(observed.value) or not 0 <= observed.wall_time < _LAST_TIMESTAMP:
        return None
    labels = {"trace_id": valid_unicode(observed.trace_id), "span_id": valid_unicode(observed.span_id)}
    if sum(len(name) + len(value) for name, value in labels.items()) > _EXEMPLAR_LENGTH:
        return None
    return Exemplar(labels, observed.value, observed.wall_time)


def label_value(text: str) -> str:
    """`text` where it is short and valid Unicode; else cut and repaired, and kept distinct by a digest.

    Lone surrogates (bytes that were not UTF-8) become U+FFFD. Escaping is the renderer's.
    """
    if len(text) <= LABEL_LENGTH and (text.isprintable() or valid_unicode(text) == text):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(raw, digest_size=_DIGEST_LENGTH // 2).hexdigest()
    kept = valid_unicode(text[: LABEL_LENGTH - _DIGEST_LENGTH - 1])
    return f"{kept}~{digest}"


def label_name(dotted: str) -> str:
    """An OpenTelemetry attribute name as a Prometheus label name: `service.name` becomes `service_name`."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", dotted)
    return f"_{name}" if name[:1].isdigit() else name


def valid_unicode(text: str) -> str:
    """`text` with U+FFFD in the place of each lone surrogate."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


class _Accepted(NamedTuple):
    """One element of a header. Of its parameters only weight and version count.

    Names are rendered as ASCII and texts as UTF-8 whatever the others ask for.
    """

    name: str
    version: str | None
    weight: float


def negotiate(accept: str) -> str:
    """The content type for an `Accept` header; of two with equal weights, OpenMetrics if the header names it."""
    accepted = list(_elements(accept))
    if not accepted:
        return TEXT
    text, openmetrics = _weight_of(TEXT, accepted), _weight_of(OPENMETRICS, accepted)
    named = any(each.name == _media_type(OPENMETRICS) for each in accepted)
    return OPENMETRICS if openmetrics > text or (named and openmetrics == text > 0) else TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header accepts gzip, with a weight no less than that of plain bytes."""
    weights = {each.name.removeprefix("x-"): each.weight for each in _elements(accept_encoding)}
    gzip, identity = (weights.get(name, weights.get("*", 0.0)) for name in ("gzip", "identity"))
    return gzip > 0 and gzip >= identity


def _weight_of(content_type: str, accepted: list[_Accepted]) -> float:
    """The weight that the most specific media range gives a content type; 0 where none matches."""
    media_type = _media_type(content_type)
    ranges = [(media_type, version) for version in (*_VERSIONS[content_type], None)]
    for name, version in (*ranges, (media_type.partition("/")[0] + "/*", None), ("*/*", None)):
        weights = [each.weight for each in accepted if each.name == name and each.version == version]
        if weights:
            return max(weights)
    return 0.0


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0]


def _elements(header: str) -> Iterator[_Accepted]:
    """The elements that a header lists, without those that are malformed, in time linear in the header's length."""
    unquoted = _QUOTED.sub(lambda quoted: _DELIMITERS.sub("", quoted[0]), header.lower())
    for element in unquoted.split(","):
        name, *rest = (part.strip() for part in element.split(";"))
        parameters = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
        weight = parameters.pop("q", "1")
        if name and _WEIGHT.fullmatch(weight):
            yield _Accepted(name, parameters.get("version"), float(weight))
