"""What plugins measure and finish, and how they and the probe side fare."""

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
    """A finished span that a plugin wants to be exported as it is."""

    name: str
    start: int
    end: int
    attributes: Attributes
    parent: SpanContext | None


class SourceReported(NamedTuple):
    """How a plugin fares: seconds spent in it, failures, when it last worked, and why it is set aside if it is.

    One that is `up` and has a `reason` did not fail: there is nothing for it to tell of, and the reason says why.
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

    What was emitted and neither dropped nor refused is in the events that the agent got before this one, which is among
    them, but for what was emitted while it was made.
    """

    emitted: int
    dropped: int
    refused: int
    listeners_restored: int
    cpu_seconds: float
    time: int
