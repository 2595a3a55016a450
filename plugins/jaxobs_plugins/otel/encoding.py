"""Converts spans and a snapshot's metrics to OTLP, by the SDK's own forms and encoders.

Metrics are cumulative sums, gauges, and histograms with their exemplars and the buckets that /metrics shows.
Information metrics become non-monotonic sums, because OTLP has no type for them
(https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/#info). A metric with a hardware form
goes out under the name of the semantic conventions too.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from jaxobs.model.clock import NANOSECONDS, ClockAnchor
from jaxobs.model.events import AttributeValue, Span
from jaxobs.model.metrics import Family, HistogramValue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.vocabulary.text import valid_text
from jaxobs_plugins.otel.environment import SignalName

if TYPE_CHECKING:
    from google.protobuf.message import Message

UNKNOWN: Any = None
"""Value of fields that are optional in OTLP: a histogram's minimum and maximum, and the start time of a gauge."""

APPENDED = {
    "seconds": "s", "bytes": "By", "watts": "W", "joules": "J", "volts": "V", "amperes": "A", "meters": "m",
    "grams": "g", "celsius": "Cel", "hertz": "Hz", "percent": "%",
}  # fmt: skip
"""Unit words to UCUM symbols: the base units that the translation turns into words (its table `unitMap`)."""

PER_SECOND = "_per_second"
"""The only rate among base units. The translation looks for it among single words, so always appends it."""

ANNOTATIONS = {"flops": "{flop}"}
"""OpenTelemetry writes annotations in the singular; any other word stands in braces as it is."""

SUBJECTS = frozenset({"amd", "cgroup", "device", "host", "nvidia", "process", "tpu"})
"""Namespaces below the first; none of these words alone is the name of a metric."""

SCOPE = InstrumentationScope("jaxobs", version("jaxobs"))
"""The instrumentation scope of our spans, metrics and profiles."""

WHOLE_NUMBERS = frozenset({"process.pid", "jax.process_index", "jax.process_count", "jaxobs.attempt"})
"""Attributes that are integers in OpenTelemetry's semantic conventions, and similar ones of our own."""


def resource(attributes: Mapping[str, str]) -> Resource:
    """The resource with these attributes, among which those of the job's OTEL_… variables are already.

    The SDK's own detector would read these once more, and log what is malformed in them with its value.
    """
    own: dict[str, str | int] = {
        name: int(value) if name in WHOLE_NUMBERS and value.isdecimal() else valid_text(value)
        for name, value in dict(attributes).items()  # a copy: the agent may add to it meanwhile
    }
    return Resource(own)


def readable_span(span: Span, clock: ClockAnchor, of: Resource) -> ReadableSpan:
    """The SDK's form of a span: wall-clock nanoseconds, ids as given."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    parent = span.parent
    return ReadableSpan(
        name=valid_text(span.name),
        context=SpanContext(span.trace_id, span.span_id, is_remote=False, trace_flags=flags),
        parent=parent and SpanContext(parent.trace_id, parent.span_id, False, TraceFlags(parent.trace_flags)),
        resource=of,
        attributes={valid_text(name): _clean(value) for name, value in span.attributes},
        start_time=clock.wall_time(span.start),
        end_time=clock.wall_time(span.end),
        status=Status(StatusCode.ERROR if ("jax.step.failed", True) in span.attributes else StatusCode.UNSET),
        instrumentation_scope=SCOPE,
    )


def _clean(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return valid_text(value)
    # OTLP has 64 bits.
    return value if not isinstance(value, int) or -(2**63) <= value < 2**63 else str(value)


def sampled(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans without a parent or with a sampled one: spans that the application drops take their children along."""
    kept = TraceFlags.SAMPLED
    return tuple(span for span in spans if span.parent is None or span.parent.trace_flags & kept)


class Signal(ABC):
    """One signal, and what waits to be sent of it: the exporter's thread adds, the worker's takes.

    `interval` is in seconds from request to request, of which each has at most `batch_size` items. The oldest are dropped
    if more than `capacity` wait.
    """

    name: SignalName
    item_name: str
    response: Any
    """The type of a receiver's answer."""

    def __init__(
        self, agent: Agent, interval: float, capacity: int | None = None, batch_size: int = sys.maxsize
    ) -> None:
        self.interval = interval
        self._agent = agent
        self._batch_size = batch_size
        self._items: deque[Any] = deque(maxlen=capacity)
        self._lock = threading.Lock()

    @abstractmethod
    def offer(self, batch: Batch) -> int:
        """Queue what is new. Returns the number of items dropped because the queue is full."""

    @abstractmethod
    def encode(self, items: tuple[Any, ...]) -> Message:
        """The request that carries these items."""

    def rejected(self, answer: bytes) -> tuple[int, str]:
        """How many items the receiver did not take, and why, by its answer. Raises DecodeError if that is no OTLP."""
        told = self.response.FromString(answer).partial_success
        return getattr(told, f"rejected_{self.item_name.replace(' ', '_')}"), told.error_message

    def add(self, items: Collection[Any]) -> int:
        """Queue these. Returns the number of items dropped because too many wait."""
        with self._lock:
            waited = len(self._items)
            self._items.extend(items)
            return waited + len(items) - len(self._items)

    def take(self) -> tuple[Any, ...]:
        """Remove and return what the next request carries; empty if nothing waits."""
        with self._lock:
            taken = min(len(self._items), self._batch_size)
            return tuple(self._items.popleft() for _ in range(taken))

    def size(self, items: Collection[Any]) -> int:
        """The number of items, as users count them."""
        return len(items)

    def waiting(self) -> int:
        with self._lock:
            return self.size(self._items)


class TraceSignal(Signal):
    """The signal of spans."""

    name, item_name, response = "traces", "spans", ExportTraceServiceResponse

    def offer(self, batch: Batch) -> int:
        return self.add(sampled(batch.spans))

    def encode(self, items: tuple[Span, ...]) -> Message:
        of = resource(self._agent.resource)
        return encode_spans([readable_span(span, self._agent.clock, of) for span in items])


class MetricSignal(Signal):
    """The signal of metrics. Only the newest snapshot waits, since skipping one loses nothing of cumulative values.

    An item is a family of it, after the snapshot's time.
    """

    name, item_name, response = "metrics", "data points", ExportMetricsServiceResponse

    def __init__(self, agent: Agent, interval: float) -> None:
        super().__init__(agent, interval)
        self._start: int | None = None
        """Wall-clock nanoseconds since which sums count: fixed, though the clock may be set meanwhile."""

    def offer(self, batch: Batch) -> int:
        snapshot = batch.snapshot
        readings = [(snapshot.time, family) for family in snapshot.families if family.series]
        if readings:
            if self._start is None:
                self._start = self._agent.clock.wall_time(_counted_since(snapshot))
            with self._lock:
                self._items = deque(readings)
        return 0

    def encode(self, items: tuple[tuple[int, Family], ...]) -> Message:
        time = self._agent.clock.wall_time(items[0][0])
        period = Period(min(self._start or time, time), time)
        families = [family for _, family in items]
        return encode_metrics(metrics_data(families, period, resource(self._agent.resource)))

    def size(self, items: Collection[tuple[int, Family]]) -> int:
        return sum(len(family.series) for _, family in items)


def _counted_since(snapshot: SnapshotData) -> int:
    """When the process began, from which on its processor time counts, in monotonic nanoseconds.

    Where counts were lost with an earlier agent, when this one began.
    """
    process = snapshot.document.get("process") or {}
    age = process.get("seconds", 0.0) - (process.get("counts_begin_seconds") or 0.0)
    return snapshot.time - int(age * NANOSECONDS)


class Period(NamedTuple):
    """From when sums count to when they were read, in wall-clock nanoseconds."""

    start: int
    end: int


def metrics_data(families: Iterable[Family], period: Period, of: Resource) -> MetricsData:
    """The families in the SDK's form, under our names and, if they have one, under those of the conventions."""
    metrics: dict[str, SdkMetric] = {}
    for family in families:
        name, unit = otlp_name(family.metric)
        metrics[name] = SdkMetric(name, family.metric.help, unit, _data(family, period))
        _add_hardware(metrics, family, period)
    scoped = ScopeMetrics(SCOPE, list(metrics.values()), "")
    return MetricsData([ResourceMetrics(of, [scoped], of.schema_url)])


def _data(family: Family, period: Period) -> Sum | Gauge | Histogram:
    if family.metric.kind == "histogram":
        distributions = [
            _distribution(_attributes(family, labels), value, family.metric.buckets, period)
            for labels, value in family.series.items()
            if isinstance(value, HistogramValue)
        ]
        return Histogram(distributions, AggregationTemporality.CUMULATIVE)
    is_sum = family.metric.kind == "counter" or family.metric.name.endswith("_info")
    return _sum_or_gauge(family, _numbers(family), period, is_sum=is_sum)


def _sum_or_gauge(
    family: Family, numbers: Iterable[tuple[Mapping[str, str], float]], period: Period, *, is_sum: bool
) -> Sum | Gauge:
    start = period.start if is_sum else UNKNOWN
    points = [NumberDataPoint(attributes, start, period.end, value) for attributes, value in numbers]
    is_monotonic = family.metric.kind == "counter"
    return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic) if is_sum else Gauge(points)


def _add_hardware(metrics: dict[str, SdkMetric], family: Family, period: Period) -> None:
    """Add the readings under the name of the conventions, to which other families may have added theirs."""
    form = family.metric.hardware
    if form is None:
        return
    numbers = []
    for labels, value in _numbers(family):
        attributes = {name: labels[label] for label, name in form.labels.items()} | dict(form.attributes)
        if attributes["hw.id"]:
            numbers.append((attributes, value))
    data = _sum_or_gauge(family, numbers, period, is_sum=form.is_sum)
    if form.name in metrics:
        metrics[form.name].data.data_points.extend(data.data_points)  # type: ignore[union-attr]  # of one form
    elif numbers:
        metrics[form.name] = SdkMetric(form.name, family.metric.help, form.unit, data)


def _numbers(family: Family) -> Iterator[tuple[dict[str, str], float]]:
    """The attributes and value of each number."""
    for labels, value in family.series.items():
        if not isinstance(value, HistogramValue):
            yield _attributes(family, labels), float(value)


def _distribution(
    attributes: Mapping[str, str], value: HistogramValue, bounds: tuple[float, ...], period: Period
) -> HistogramDataPoint:
    exemplars = [
        SdkExemplar(
            {}, float(seen.value), int(seen.wall_time * NANOSECONDS),
            span_id=int(seen.span_id, 16), trace_id=int(seen.trace_id, 16),
        )
        for seen in value.exemplars if seen is not None
    ]  # fmt: skip
    return HistogramDataPoint(
        attributes, *period, value.count, value.sum, value.counts, bounds, UNKNOWN, UNKNOWN, exemplars
    )


def _attributes(family: Family, labels: tuple[str, ...]) -> dict[str, str]:
    return {name: valid_text(value) for name, value in zip(family.metric.labels, labels, strict=True)}


def otlp_name(metric: Metric) -> tuple[str, str]:
    """The instrument's dotted name and its unit, such that Prometheus's translation yields the catalogue name again.

    The translation (`metric_namer.go` and `unit_namer.go` of https://github.com/prometheus/otlptranslator, by its
    default strategy) joins the parts of a name with underscores and appends, unless it has them, the unit in
    words, then `total` to a monotonic sum, or `ratio` to a gauge of unit `1`. A unit in braces adds nothing.

    The rule here: a namespace, a dot, and the other words joined by underscores, as OpenTelemetry's naming has it
    (https://opentelemetry.io/docs/specs/semconv/general/naming/). No name is a namespace as well: so `jaxobs.step` for
    `jaxobs_step_seconds` and `jaxobs.step_host`, not `jaxobs.step.host`. The suffix `_total` is dropped, and so is a unit
    that the translation appends. These words stay in the name:
    - `flops`, and `bytes` but for memory: they are what is counted, and without them the FLOPs, bytes and seconds
      of one subject would share a name;
    - a unit that the translation does not know (`flops_per_byte`), which is then written in braces;
    - a unit without which nothing but the prefix would be left, or that occurs in the name a second time.

    No unit helps where the name holds `total` before its end, or underscores that are doubled or last: the
    translation removes them.
    """
    stem = metric.name.removesuffix("_total")
    if metric.unit == "ratio":
        shortened = _without(stem, "ratio") if metric.kind == "gauge" else None
        return (_dotted(shortened), "1") if shortened else (_dotted(stem), "")
    main = metric.unit.removesuffix(PER_SECOND)
    if main != metric.unit:
        return _dotted(stem.removesuffix(PER_SECOND)), f"{_symbol(main)}/s"
    if main == "bytes" and "memory" not in stem.split("_"):
        return _dotted(stem), APPENDED["bytes"]
    shortened = _without(stem, main) if main in APPENDED else None
    return _dotted(shortened or stem), _symbol(main) if main else ""


def _symbol(word: str) -> str:
    return APPENDED.get(word) or ANNOTATIONS.get(word, "{" + word + "}")


def _without(stem: str, word: str) -> str | None:
    """The stem without its last word; None where the translation would not append that word again."""
    rest = stem.removesuffix("_" + word)
    parts = rest.split("_")
    return rest if len(parts) > 1 and word not in parts else None


def _dotted(name: str) -> str:
    prefix, _, rest = name.partition("_")
    subject, _, more = rest.partition("_")
    return ".".join(filter(None, (prefix, subject, more) if subject in SUBJECTS and more else (prefix, rest)))
