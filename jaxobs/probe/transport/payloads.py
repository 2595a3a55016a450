"""How many bytes of modules and traces may wait for the agent: the ring bounds how many events wait, not how large."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jaxobs.flow.ring import Ring
from jaxobs.flow.wire import payload_apart, without_payload
from jaxobs.model.events import Event, ExecutableCreated

MOST_WAITING_BYTES = 256 * 2**20
"""Four modules of the largest size that is decoded by default, or some hundred usual ones, fit while the agent is slow to
take them; of an accelerator's host, whose memory is counted in tens of gigabytes, it is about a hundredth."""


class Payloads:
    """`emit` is the ring's for what probes emit, except that an event gives up its payload where too much waits.

    `unsent` tells how many bytes were taken out of the ring and are not written yet. May be called from any thread, and
    in a signal handler that interrupts itself.
    """

    def __init__(self, ring: Ring, unsent: Callable[[], int], most: int = MOST_WAITING_BYTES) -> None:
        self._ring = ring
        self._unsent = unsent
        self._most = most
        self._at_most = (
            0  # what waits is not more than this: what has left is only looked at where it matters
        )
        self._lock = threading.RLock()
        self.module_bytes = 0
        """Of all modules so far: a trace that holds the job's modules is at least as large."""

    def emit(self, event: Event) -> None:
        if not (size := payload_bytes(event)):
            self._ring.emit(event)
            return
        with self._lock:
            if type(event) is ExecutableCreated:
                self.module_bytes += size
            if self._at_most + size > self._most:
                self._at_most = self.waiting_bytes()
            if self._at_most + size > self._most:
                self._ring.emit(without_payload(event, self._why_not(size), "failed"))
            else:
                self._at_most += size
                self._ring.emit(event)

    def _why_not(self, size: int) -> str:
        if size > self._most:
            return f"it has {size} bytes: no more than {self._most} may wait for the agent"
        return f"the agent was behind: {self._at_most} bytes of modules and traces waited for it already"

    def waiting_bytes(self) -> int:
        """What waits now. Looks at every event in the ring."""
        return self._unsent() + sum(map(payload_bytes, self._ring.waiting()))


def payload_bytes(event: Event) -> int:
    """The size of the module or the trace in an event, in bytes."""
    _, payload = payload_apart(event)
    return len(payload) if isinstance(payload, bytes) else 0
