"""The agent's end of the pipe to its job, and how threads of the agent wake whoever waits at it."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from jaxobs.flow import wire
from jaxobs.flow.wake_up import WakeUp
from jaxobs.model.clock import monotonic

PIECE_BYTES: Final = 1 << 16
"""Received at a time. Space for a mebibyte is mapped anew by each call: 64 µs for the 70 kB of a second's steps, and in
two pieces of this size 8 µs (measured)."""


class JobPipe:
    """Frames may be sent from any thread; one thread waits and receives."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._send_lock = threading.Lock()
        self._wake_up = WakeUp()
        self.wake = self._wake_up.ring
        """End the wait, from any thread."""

    def send(self, kind: bytes, body: Any) -> None:
        """To the job; a job that is gone hears nothing, and that is seen where the pipe is read."""
        with contextlib.suppress(OSError, ValueError), self._send_lock:
            self._end.sendall(wire.frame(kind, body))

    def wait(self, until: float, idle: Callable[[], None]) -> bool:
        """Until there is something to receive (True), a thread wakes this one, or the clock `monotonic` says `until`.

        `idle` is called after the wait, where there was nothing to receive at once.
        """
        ends = [self._end, self._wake_up.reading]
        readable, _, _ = select.select(ends, [], [], 0.0)
        if self._end not in readable:
            readable, _, _ = select.select(ends, [], [], max(0.0, until - monotonic()))
            idle()
        if self._wake_up.reading in readable:
            self._wake_up.heard()
        return self._end in readable

    def receive(self) -> bytes:
        """What has come; nothing where the job has ended."""
        try:
            return self._end.recv(PIECE_BYTES)
        except OSError:
            return b""

    def end(self) -> None:
        """Tell the job, which waits for it, that nothing follows."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Wake nobody any more. The socket belongs to whoever made it."""
        self._wake_up.close()
