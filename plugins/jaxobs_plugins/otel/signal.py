"""A signal (traces or metrics): a queue of items, and how they are sent in requests."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from jaxobs.plugin.protocol import Agent, Batch
from jaxobs_plugins.otel.outcome import Outcome

if TYPE_CHECKING:
    from jaxobs_plugins.otel.connection import Connection

Payload = TypeVar("Payload")


class Signal(ABC, Generic[Payload]):
    """A queue of items and their encoding. The exporter's thread calls `offer`, the worker's everything else."""

    name: str

    def __init__(self, agent: Agent, endpoint: str, interval: float, connection: Connection) -> None:
        """`endpoint` is for messages; `interval` is the seconds from one request to the next."""
        self.endpoint = endpoint
        self.interval = interval
        self._agent = agent
        self._connection = connection
        self._lock = threading.Lock()

    @abstractmethod
    def offer(self, batch: Batch) -> int:
        """Queue what is new. Returns the number of items dropped because the queue is full."""

    def full(self) -> bool:
        """Whether enough items wait to send them before the interval is over."""
        return False

    @abstractmethod
    def take(self) -> Payload | None:
        """Remove and return the payload of the next request; None where nothing waits."""

    @abstractmethod
    def send(self, payload: Payload, deadline: float | None) -> Outcome:
        """Make one attempt, which ends by `deadline` (monotonic seconds)."""

    @abstractmethod
    def halves(self, payload: Payload) -> tuple[Payload, ...]:
        """The payload in two parts; empty where it has only one item."""

    @abstractmethod
    def size(self, payload: Payload) -> int:
        """The number of items (spans, data points) in a payload."""

    def close(self) -> None:
        """Close connections; nothing is sent afterwards."""
        self._connection.close()

    @abstractmethod
    def waiting(self) -> int:
        """The number of items that were offered and not taken yet."""
