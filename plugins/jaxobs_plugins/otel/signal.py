"""A signal (traces or metrics): what waits to be sent, and how a part of it is sent."""

from __future__ import annotations

from typing import Protocol, TypeVar

from jaxobs.plugin.protocol import Batch
from jaxobs_plugins.otel.outcome import Outcome

Payload = TypeVar("Payload")


class Signal(Protocol[Payload]):
    """`offer` is called by the exporter's thread, everything else by the signal's worker."""

    name: str
    endpoint: str
    interval: float

    def offer(self, batch: Batch) -> int:
        """Take in what is new; the number of items that were dropped because too much waits."""

    def full(self) -> bool:
        """Whether so much waits that it should be sent before the interval is over."""

    def take(self) -> Payload | None:
        """What is to be sent next, in one request."""

    def send(self, payload: Payload, deadline: float | None) -> Outcome:
        """One attempt, over by `deadline` (monotonic seconds)."""

    def halves(self, payload: Payload) -> tuple[Payload, ...]:
        """The payload in two parts; empty where it has only one item."""

    def size(self, payload: Payload) -> int:
        """Items (spans, data points) in a payload."""

    def close(self) -> None:
        """Close connections; nothing is sent afterwards."""

    def waiting(self) -> int:
        """Items that were offered and not taken."""
