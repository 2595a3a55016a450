"""The agent's end of the pipe to its job, which also lets threads of the agent wake the one that waits for the job."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any, Final

from jaxobs.flow import wire
from jaxobs.flow.pipe import Descriptor, WakeUp, ready
from jaxobs.model.clock import monotonic

PIECE_BYTES: Final = 1 << 16
"""Most bytes received by one call. A buffer of a mebibyte would be mapped anew by each call: the 70 kB of a second's
steps take 64 µs so, and 8 µs in two pieces of this size (measured)."""


class JobPipe:
    """The pipe. Any thread may send frames; one thread waits and receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._send_lock = threading.Lock()
        self._room = select.poll()
        self._room.register(end, select.POLLOUT)
        self._wake_up = WakeUp()
        self.wake = self._wake_up.ring
        """Ends the wait; may be called from any thread."""

    def send(self, kind: bytes, body: Any) -> None:
        """Send a frame to the job. Errors are ignored: that a job is gone is noticed where the pipe is read.

        A job whose native code holds the interpreter lock reads nothing, and must not hold up the agent. Lines of the log
        are dropped while more than a quarter of the socket's buffer is full: up to there Linux calls it writable.
        """
        with contextlib.suppress(OSError, ValueError), self._send_lock:
            if kind != wire.LOG or self._room.poll(0):
                self._end.sendall(wire.frame(kind, body))

    def wait(self, until: float) -> bool:
        """Wait until there is something to receive, a thread wakes this one, or `monotonic()` reaches `until`.

        Returns whether there is something to receive.
        """
        ends: list[socket.socket | Descriptor] = [self._end, self._wake_up.reading]
        readable = ready(ends, [], max(0.0, until - monotonic()))
        if self._wake_up.reading in readable:
            self._wake_up.heard()
        return self._end in readable

    def receive(self) -> bytes:
        """The bytes that have arrived; empty where the job has ended."""
        try:
            return self._end.recv(PIECE_BYTES)
        except OSError:
            return b""

    def end(self) -> None:
        """Shut the socket down, which tells the waiting job that nothing follows."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the wake-up sockets. The pipe itself is closed by its creator."""
        self._wake_up.close()
