"""The protocol of a signal (traces or metrics), which queues items and sends them in requests."""

from __future__ import annotations

from typing import Protocol, TypeVar

from jaxobs.plugin.protocol import Batch
from jaxobs_plugins.otel.outcome import Outcome

Payload = TypeVar("Payload")


class Signal(Protocol[Payload]):
    """A queue of items and their encoding. The exporter's thread calls `offer`, the worker's everything else."""

    name: str
    endpoint: str
    interval: float

    def offer(self, batch: Batch) -> int:
        """Queue what is new. Returns the number of items dropped because the queue is full."""

    def full(self) -> bool:
        """Whether enough items wait to send them before the interval is over."""

    def take(self) -> Payload | None:
        """Remove and return the payload of the next request; None where nothing waits."""

    def send(self, payload: Payload, deadline: float | None) -> Outcome:
        """Make one attempt, which ends by `deadline` (monotonic seconds)."""

    def halves(self, payload: Payload) -> tuple[Payload, ...]:
        """The payload in two parts; empty where it has only one item."""

    def size(self, payload: Payload) -> int:
        """The number of items (spans, data points) in a payload."""

    def close(self) -> None:
        """Close connections; nothing is sent afterwards."""

    def waiting(self) -> int:
        """The number of items that were offered and not taken yet."""
