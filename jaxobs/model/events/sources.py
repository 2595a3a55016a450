"""Events of plugins: their values and spans, their state, and that of the probe side."""

from __future__ import annotations

from typing import NamedTuple

from jaxobs.model.events.attributes import Attributes, SpanContext


class Measured(NamedTuple):
    """One value of a metric that a plugin declared: counters add it, gauges take it, histograms observe it."""

    metric: str
    labels: tuple[str, ...]
    value: float
    time: int


class SpanEnded(NamedTuple):
    """A finished span of a plugin, which is exported unchanged."""

    name: str
    start: int
    end: int
    attributes: Attributes
    parent: SpanContext | None


class SourceReported(NamedTuple):
    """The state of a plugin: seconds spent in it, failures, its last success, and why it failed or is set aside.

    One that is `up` and has a `reason` did not fail: it has nothing to measure, and the reason says why.
    """

    source: str
    kind: str
    up: bool
    seconds: float
    failures: int
    last_success: int | None
    reason: str
    time: int


class ProbeReported(NamedTuple):
    """Running totals of the probe side: events emitted, dropped and refused, listeners put back, CPU of its threads.

    Events that were emitted and neither dropped nor refused reached the agent up to and including this one, except
    those emitted while this one was made.
    """

    emitted: int
    dropped: int
    refused: int
    listeners_restored: int
    cpu_seconds: float
    time: int
