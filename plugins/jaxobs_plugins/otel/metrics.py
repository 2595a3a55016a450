"""Converts the snapshot's metrics to OTLP: cumulative sums, gauges and histograms with their exemplars.

Information metrics become non-monotonic sums, because OTLP has no type for them
(https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/#info).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.metrics import SCALE, Exemplar, Family, HistogramValue
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.vocabulary.text import valid_text
from jaxobs_plugins.otel.connection import Connection
from jaxobs_plugins.otel.environment import Sending
from jaxobs_plugins.otel.hardware import Convention, HardwarePoint, hardware_points
from jaxobs_plugins.otel.names import otlp_name
from jaxobs_plugins.otel.outcome import Outcome
from jaxobs_plugins.otel.resource import resource, scope
from jaxobs_plugins.otel.signal import Signal

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

UNKNOWN: Any = None
"""Value of fields that are optional in OTLP: a histogram's minimum and maximum, and the start time of a gauge."""


class Readings(NamedTuple):
    """The metric families of a snapshot taken at `time` (monotonic nanoseconds)."""

    time: int
    families: tuple[Family, ...]


AGGREGATION = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
EXPONENTIAL = "base2_exponential_bucket_histogram"
"""https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/otlp/#additional-environment-variable-configuration"""


def metrics_data(
    families: tuple[Family, ...], start: int, time: int, of: Resource, *, exponential: bool = False
) -> MetricsData:
    """The families in the SDK's form. `start`, from which sums count, and `time` are wall-clock nanoseconds."""
    metrics = [_metric(family, start, time, exponential=exponential) for family in families]
    metrics += _hardware(hardware_points(families), start, time)
    return MetricsData([ResourceMetrics(of, [ScopeMetrics(scope(), metrics, "")], of.schema_url)])


def _metric(family: Family, start: int, time: int, *, exponential: bool) -> Metric:
    name, unit = otlp_name(family.metric)
    cumulative = AggregationTemporality.CUMULATIVE
    data: Sum | Gauge | Histogram | ExponentialHistogram
    if family.metric.kind == "histogram":
        histograms = [
            (_attributes(family, labels), value)
            for labels, value in family.series.items()
            if isinstance(value, HistogramValue)
        ]
        data = (
            ExponentialHistogram([_exponential(*each, start, time) for each in histograms], cumulative)
            if exponential
            else Histogram(
                [_distribution(*each, family.metric.buckets, start, time) for each in histograms], cumulative
            )
        )
    else:
        is_sum = family.metric.kind == "counter" or family.metric.name.endswith("_info")
        points = [
            NumberDataPoint(_attributes(family, labels), start if is_sum else UNKNOWN, time, float(value))
            for labels, value in family.series.items()
            if not isinstance(value, HistogramValue)
        ]
        is_monotonic = family.metric.kind == "counter"
        data = Sum(points, cumulative, is_monotonic) if is_sum else Gauge(points)
    return Metric(name, family.metric.help, unit, data)


def _hardware(points: Iterable[HardwarePoint], start: int, time: int) -> list[Metric]:
    """The points as one metric for each name of the conventions."""
    by_name: dict[str, tuple[Convention, str, list[NumberDataPoint]]] = {}
    for convention, description, attributes, value in points:
        since = UNKNOWN if convention.form == "gauge" else start
        cleaned = {name: valid_text(text) for name, text in attributes.items()}
        entry = by_name.setdefault(convention.name, (convention, description, []))
        entry[2].append(NumberDataPoint(cleaned, since, time, value))
    metrics = []
    for convention, description, readings in by_name.values():
        is_monotonic = convention.form == "monotonic sum"
        data: Sum | Gauge = (
            Gauge(readings)
            if convention.form == "gauge"
            else Sum(readings, AggregationTemporality.CUMULATIVE, is_monotonic)
        )
        metrics.append(Metric(convention.name, description, convention.unit, data))
    return metrics


def _exponential(
    attributes: Mapping[str, str], value: HistogramValue, start: int, time: int
) -> ExponentialHistogramDataPoint:
    lowest, highest = min(value.exponential, default=0), max(value.exponential, default=-1)
    counts = [value.exponential.get(index, 0) for index in range(lowest, highest + 1)]
    exemplars = [_exemplar(exemplar) for exemplar in value.exemplars if exemplar is not None]
    return ExponentialHistogramDataPoint(
        attributes, start, time, value.count, value.sum, SCALE, value.zeros, Buckets(lowest, counts), Buckets(0, []),
        0, UNKNOWN, UNKNOWN, exemplars,
    )  # fmt: skip


def _distribution(
    attributes: Mapping[str, str], value: HistogramValue, bounds: tuple[float, ...], start: int, time: int
) -> HistogramDataPoint:
    exemplars = [_exemplar(exemplar) for exemplar in value.exemplars if exemplar is not None]
    return HistogramDataPoint(
        attributes, start, time, value.count, value.sum, value.counts, bounds, UNKNOWN, UNKNOWN, exemplars
    )


def _exemplar(exemplar: Exemplar) -> SdkExemplar:
    return SdkExemplar(
        {},
        float(exemplar.value),
        int(exemplar.wall_time * NANOSECONDS),
        span_id=int(exemplar.span_id, 16),
        trace_id=int(exemplar.trace_id, 16),
    )


def _attributes(family: Family, labels: tuple[str, ...]) -> dict[str, str]:
    return {name: valid_text(value) for name, value in zip(family.metric.labels, labels, strict=True)}


def _rejected(answer: bytes) -> int:
    return int(ExportMetricsServiceResponse.FromString(answer).partial_success.rejected_data_points)


class MetricSignal(Signal[Readings]):
    """The signal of metrics. Only the newest snapshot waits, since skipping one loses nothing of cumulative values."""

    name = "metrics"

    def __init__(self, agent: Agent, endpoint: str, sending: Sending, interval: float) -> None:
        super().__init__(agent, endpoint, interval, Connection(sending, _rejected))
        self._start = now()
        self._exponential = os.environ.get(AGGREGATION, "").strip().lower() == EXPONENTIAL
        self._newest: Readings | None = None

    def offer(self, batch: Batch) -> int:
        families = tuple(family for family in batch.snapshot.families if family.series)
        if families:
            with self._lock:
                self._newest = Readings(batch.snapshot.time, families)
        return 0

    def take(self) -> Readings | None:
        with self._lock:
            taken, self._newest = self._newest, None
        return taken

    def send(self, payload: Readings, deadline: float | None) -> Outcome:
        clock = self._agent.clock
        data = metrics_data(
            payload.families,
            clock.wall_time(min(self._start, payload.time)),
            clock.wall_time(payload.time),
            resource(self._agent.resource),
            exponential=self._exponential,
        )
        return self._connection.post(encode_metrics(data), deadline)

    def halves(self, payload: Readings) -> tuple[Readings, ...]:
        """The families in two parts; a single one is split by its series; empty where one series is left."""
        families = payload.families
        if len(families) == 1:
            family, middle = families[0], len(families[0].series) // 2
            series = iter(family.series.items())
            parts = [Family(family.metric, dict(islice(series, middle))), Family(family.metric, dict(series))]
            return tuple(Readings(payload.time, (part,)) for part in parts) if middle else ()
        middle = len(families) // 2
        return Readings(payload.time, families[:middle]), Readings(payload.time, families[middle:])

    def size(self, payload: Readings) -> int:
        return sum(len(family.series) for family in payload.families)

    def waiting(self) -> int:
        newest = self._newest
        return self.size(newest) if newest is not None else 0
