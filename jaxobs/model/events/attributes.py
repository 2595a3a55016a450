"""Attributes of spans and events, and the application's own span around them."""

from __future__ import annotations

from typing import NamedTuple

AttributeValue = str | int | float | bool
Attributes = tuple[tuple[str, AttributeValue], ...]


class SpanContext(NamedTuple):
    """The application's own OpenTelemetry span that was current when something happened."""

    trace_id: int
    span_id: int
    trace_flags: int
