"""Finished spans, as exporters receive them."""

from __future__ import annotations

from dataclasses import dataclass

from jaxobs.model.events import Attributes, SpanContext


@dataclass(frozen=True, slots=True)
class Span:
    """A finished span. Times are monotonic nanoseconds of this host. `span_id` and `trace_id` are never 0.

    `parent` is the enclosing span: one of ours, or the application's own (`parent.trace_id` is then this `trace_id`).
    """

    name: str
    trace_id: int
    span_id: int
    parent: SpanContext | None
    start: int
    end: int
    attributes: Attributes
