"""What waits for the agent, and what a new agent must be sent again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from jaxobs.flow.ring import Ring
from jaxobs.flow.wire import payload_apart
from jaxobs.model.events import (
    BackendFound,
    Event,
    ExecutableCreated,
    FunctionWatched,
    LoopDeclared,
    ProfileWindow,
    StepRows,
)

MAX_WAITING_BYTES = 256 * 2**20
"""Most bytes that wait: four modules of the largest size that is decoded by default, or some hundred usual ones. It is
about a hundredth of an accelerator host's memory, which is tens of gigabytes."""


RETAINED_BYTES = 8 * 2**20
"""Most bytes of modules kept for a new agent; the costs of further ones are lost with the agent that has them."""


EXECUTABLES_KEPT = 10_000
"""Executables kept for a new agent, the latest: some 300 bytes each beside the module."""


class Payloads:
    """Puts what probes emit into the ring, without its module or trace where too many bytes wait already.

    `unsent` returns the bytes that were taken out of the ring and are not written yet. `emit` may be called from any
    thread, and from a signal handler that interrupts it.
    """

    def __init__(self, ring: Ring, unsent: Callable[[], int], most: int = MAX_WAITING_BYTES) -> None:
        self._ring = ring
        self._unsent = unsent
        self._most = most
        self._too_many = (
            f"with it more than {most} bytes of modules and traces would have waited for the agent"
        )
        self._at_most = 0
        """An upper bound of the bytes that wait: counted anew only where it would exceed the limit."""
        self._lock = threading.RLock()
        self.module_bytes = 0
        """Bytes of all modules so far: a trace that holds the job's modules is at least as large."""

    def emit(self, event: Event) -> None:
        if not (size := payload_bytes(event)):
            self._ring.emit(event)
            return
        with self._lock:
            if type(event) is ExecutableCreated:
                self.module_bytes += len(event.proto or b"")
            if self._at_most + size > self._most:
                self._at_most = self.waiting_bytes()
            if self._at_most + size <= self._most:
                self._at_most += size
            elif isinstance(event, ProfileWindow):
                event = event._replace(xspace=None, outcome="failed", reason=self._too_many)
            elif isinstance(event, ExecutableCreated):
                event = _without_module(event, self._too_many)
            self._ring.emit(event)

    def waiting_bytes(self) -> int:
        """The bytes that wait now, counted over every event in the ring."""
        return self._unsent() + sum(map(payload_bytes, self._ring.waiting()))


def _without_module(event: ExecutableCreated, reason: str) -> ExecutableCreated:
    return event._replace(proto=None, proto_reason=reason, buffers=b"")


def payload_bytes(event: Event) -> int:
    """The size of the module with its buffer assignment, or of the trace, in an event, in bytes."""
    _, payload = payload_apart(event)
    buffers = event.buffers if isinstance(event, ExecutableCreated) else b""
    return (len(payload) if isinstance(payload, bytes) else 0) + len(buffers)


class Retained:
    """Events that a new agent needs to understand later ones."""

    def __init__(self) -> None:
        self._executables = deque[ExecutableCreated]()
        self._bytes = 0
        self._declared: dict[str | int, Event] = {}
        """Loops by name, watched functions by number, the backend by 0, which is none's number."""

    def keep(self, events: Iterable[Event | StepRows]) -> int:
        """Keep the events that a new agent must be sent again. Returns how many these are."""
        return sum(map(self._keep, events))

    def _keep(self, event: Event | StepRows) -> bool:
        if isinstance(event, LoopDeclared):
            self._declared[event.loop] = event
        elif isinstance(event, FunctionWatched | BackendFound):
            self._declared[event.number if isinstance(event, FunctionWatched) else 0] = event
        elif isinstance(event, ExecutableCreated):
            if len(self._executables) == EXECUTABLES_KEPT:
                self._bytes -= payload_bytes(self._executables.popleft())
            size = payload_bytes(event)
            if self._bytes + size > RETAINED_BYTES:
                event, size = _without_module(event, "lost when the agent was started again"), 0
            self._bytes += size
            self._executables.append(event)
        else:
            return False
        return True

    def events(self) -> list[Event]:
        """The events to send again: executables in their order, then the backend, loops and watched functions."""
        return [*self._executables, *self._declared.values()]

    def executables(self) -> list[ExecutableCreated]:
        """The executables so far, of which a later observer's agents must know too. May be called from any thread."""
        return list(self._executables)
