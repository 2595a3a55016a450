"""The sockets of the pipe between job and agent: held by device and inode, waited for, and woken by other threads.

A job may close every descriptor that it does not know, and the system gives their numbers to what it opens next. So
before each use the number is looked up (fstat(2), 0.3 µs) and compared with the device and inode that it had; a number
that means something else by now is let go of and not touched, neither by a garbage collector that finds the object.
"""

from __future__ import annotations

import _imp
import _socket
import contextlib
import errno
import os
import selectors
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""SIGPIPE, where the job gave it back its default action, would end the job when the other end is gone."""


class Descriptor:
    """One end of a socket pair, non-blocking. Its methods raise OSError where it is closed or no longer ours."""

    def __init__(self, end: _socket.socket) -> None:
        """Take the socket over: `end` is empty afterwards."""
        family, kind, protocol = end.family, end.type, end.proto
        self._socket = _Kept(family, kind, protocol, fileno=above_streams(end.detach()))
        self._socket.setblocking(False)
        self._identity = identity(self._socket.fileno())

    @classmethod
    def pair(cls) -> tuple[Self, Self]:
        """Both ends of a new pair. Raises what making sockets raises: OSError, or anything where a guard forbids it."""
        # Python forks with the lock of imports held, which it takes last. While it is ours, no other thread makes a child
        # that has sockets which `close_all` does not know. No code of the job's runs meanwhile, but a guard in the place
        # of Python's own: no audit hook, and no signal handler, as they are put off or run on another thread.
        places = {getattr(each, "__module__", "") for each in (socket.socketpair, socket.socket)}
        make = _socket.socketpair if places == {"socket"} else socket.socketpair
        _imp.acquire_lock()
        try:
            numbers = [above_streams(end.detach()) for end in make()]
            still = [(number, known) for number, known in _open if identity(number) == known]
            _open[:] = [*still, *((number, identity(number)) for number in numbers)]
        finally:
            _imp.release_lock()
        ours, theirs = (cls(_Kept(fileno=number)) for number in numbers)
        return ours, theirs

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
            raise OSError(errno.EBADF, "the descriptor is closed")
        return self._socket


_open: list[tuple[int, tuple[int, int] | None]] = []
"""The numbers and identities of the ends that are open in this process."""


def close_all() -> None:
    """Close each end in a forked child: with one open there, the agent would not see the end of the job."""
    for number, known in _open:
        if identity(number) == known:
            os.close(number)


def identity(number: int) -> tuple[int, int] | None:
    """Device and inode of what a descriptor's number means now; None if it is closed."""
    try:
        found = os.fstat(number)
    except OSError as error:
        _require_systems(error)
        return None
    return found.st_dev, found.st_ino


def _require_systems(error: OSError) -> None:
    """Raise an error that has no number: not the system's, but one that a signal handler of the user's raised."""
    if error.errno is None:
        raise error


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


if TYPE_CHECKING:  # `socket.socket` may be anything at run time: a test of the job's may forbid it
    End = socket.socket | Descriptor

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""Not epoll, which takes a descriptor of its own for each wait."""


def ready(reading: Sequence[End], writing: Sequence[End], seconds: float) -> list[End]:
    """Wait until a socket of `reading` can be read, one of `writing` written, or the seconds are over.

    Returns those that can be read, and at once those that are closed: reading them tells.
    """
    closed = [end for end in reading if end.fileno() < 0]
    with _Selector() as selector:
        for end in {*reading, *writing}:
            wanted = selectors.EVENT_READ * (end in reading) | selectors.EVENT_WRITE * (end in writing)
            if (number := end.fileno()) >= 0:  # asked once: the job may close it meanwhile
                selector.register(number, wanted, end)
        events = selector.select(0.0 if closed else seconds)
        found = {key.data for key, which in events if which & selectors.EVENT_READ}
        return [end for end in reading if end in found or end in closed]


class WakeUp:
    """A socket pair: one thread waits for `reading` beside its other sockets, and any thread may `ring`.

    Making it raises OSError where no file descriptor is available, or whatever a guard raises that forbids sockets.
    """

    def __init__(self) -> None:
        self.reading, self._writing = Descriptor.pair()

    def is_lost(self) -> bool:
        """Whether somebody else has closed one of the two."""
        return self.reading.fileno() < 0 or self._writing.fileno() < 0

    def ring(self) -> None:
        """Wake the waiting thread, or keep it from waiting the next time."""
        try:
            self._writing.send(b"\0")
        except OSError as error:  # full: it will wake anyway; closed: there is nothing to wake
            _require_systems(error)

    def heard(self) -> None:
        """Clear the signal, so that the next wait is a new one; called by the thread that was woken."""
        with contextlib.suppress(OSError):
            self.reading.receive(4096)

    def close(self) -> None:
        """Close both sockets; `ring` does nothing from now on."""
        self.reading.close()
        self._writing.close()
