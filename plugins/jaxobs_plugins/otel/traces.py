"""Converts finished spans to OTLP traces and queues them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags

from jaxobs.model.clock import ClockAnchor
from jaxobs.model.events import AttributeValue, Span
from jaxobs.plugin.protocol import Agent, Batch
from jaxobs.vocabulary.text import valid_text
from jaxobs_plugins.otel.connection import Connection
from jaxobs_plugins.otel.environment import Sending
from jaxobs_plugins.otel.outcome import Outcome
from jaxobs_plugins.otel.resource import resource, scope
from jaxobs_plugins.otel.signal import Signal

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource


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
        instrumentation_scope=scope(),
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


def _rejected(answer: bytes) -> int:
    return int(ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans)


class TraceSignal(Signal[tuple[Span, ...]]):
    """The signal of spans. The oldest are dropped if more than `capacity` wait; a request has at most `batch_size`."""

    name = "traces"

    def __init__(
        self, agent: Agent, endpoint: str, sending: Sending, interval: float, capacity: int, batch_size: int
    ) -> None:
        super().__init__(agent, endpoint, interval, Connection(sending, _rejected))
        self._batch_size = min(batch_size, capacity)
        self._spans: deque[Span] = deque(maxlen=capacity)
        self._capacity = capacity

    def offer(self, batch: Batch) -> int:
        spans = sampled(batch.spans)
        with self._lock:
            dropped = max(len(self._spans) + len(spans) - self._capacity, 0)
            self._spans.extend(spans)
        return dropped

    def full(self) -> bool:
        """Whether enough spans wait for a whole request."""
        return len(self._spans) >= self._batch_size

    def take(self) -> tuple[Span, ...] | None:
        with self._lock:
            taken = min(len(self._spans), self._batch_size)
            return tuple(self._spans.popleft() for _ in range(taken)) or None

    def send(self, payload: tuple[Span, ...], deadline: float | None) -> Outcome:
        of = resource(self._agent.resource)
        spans = [readable_span(span, self._agent.clock, of) for span in payload]
        return self._connection.post(encode_spans(spans), deadline)

    def halves(self, payload: tuple[Span, ...]) -> tuple[tuple[Span, ...], ...]:
        middle = len(payload) // 2
        return (payload[:middle], payload[middle:]) if middle else ()

    def size(self, payload: tuple[Span, ...]) -> int:
        return len(payload)

    def waiting(self) -> int:
        return len(self._spans)
