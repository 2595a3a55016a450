"""A socket that is ours only as long as its number still means what we opened.

A job may close every descriptor that it does not know, and the system gives their numbers to what it opens next. So
before each use the number is looked up (fstat(2), 0.3 µs) and compared with the device and inode that it had; a number
that means something else by now is let go of and not touched, neither by a garbage collector that finds the object.
"""

from __future__ import annotations

import _socket
import os
import socket
from typing import Self

_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""SIGPIPE, where the job gave it back its default action, would end the job when the other end is gone."""


class Descriptor:
    """One end of a socket pair, non-blocking. Its methods raise OSError where it is closed or no longer ours."""

    def __init__(self, end: socket.socket) -> None:
        """Take the socket over: `end` is empty afterwards."""
        family, kind, protocol = end.family, end.type, end.proto
        self._socket = _Kept(family, kind, protocol, fileno=above_streams(end.detach()))
        self._socket.setblocking(False)
        self._identity = identity(self._socket.fileno())

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Both ends of a new pair. Raises what making sockets raises: OSError, or anything where a guard forbids it."""
        ours, theirs = socket.socketpair()
        return cls(ours), cls(theirs)

    def fileno(self) -> int:
        """The number; -1 where it is closed or names something else by now."""
        if self._socket.fileno() >= 0 and identity(self._socket.fileno()) != self._identity:
            self._socket.detach()
        return self._socket.fileno()

    def send(self, piece: bytes | memoryview) -> int:
        """Send what the socket takes at once. Raises BlockingIOError where that is nothing."""
        return self._checked().send(piece, _NO_SIGNAL)

    def receive(self, most: int) -> bytes:
        """What has arrived; empty after the end. Raises BlockingIOError where that is nothing."""
        return self._checked().recv(most)

    def close(self) -> None:
        """Close it, if it is still ours. May be called again."""
        if self.fileno() >= 0:
            self._socket.close()

    def _checked(self) -> _Kept:
        if self.fileno() < 0:
            raise OSError("the descriptor is closed")
        return self._socket


def identity(number: int) -> tuple[int, int] | None:
    """Device and inode of what a descriptor's number means now; None where it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def above_streams(number: int) -> int:
    """The descriptor under a number above those of the standard streams, which a job may have closed.

    What it opens next, or starts, would take ours for its own stream.
    """
    numbers = [number]
    while numbers[-1] < 3:
        numbers.append(os.dup(numbers[-1]))
    for low in numbers[:-1]:
        os.close(low)
    return numbers[-1]


class _Kept(_socket.socket):  # and not `socket.socket`, in whose place a job's tests may have put a guard
    """A socket that the garbage collector does not close: the number may be somebody else's by then."""

    def __del__(self) -> None:
        pass
