"""Wakes a thread that waits: for sockets, or for nothing but the call."""

from __future__ import annotations

import _thread
import contextlib

from jaxobs.flow.descriptor import Descriptor


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
        with contextlib.suppress(OSError):  # full: it will wake anyway; closed: there is nothing to wake
            self._writing.send(b"\0")

    def heard(self) -> None:
        """Clear the signal, so that the next wait is a new one; called by the thread that was woken."""
        with contextlib.suppress(OSError):
            self.reading.receive(4096)

    def close(self) -> None:
        """Close both sockets; `ring` does nothing from now on."""
        self.reading.close()
        self._writing.close()


class Call:
    """One thread waits for a call, and any thread may make it; calls that nobody has waited for yet count as one.

    A bare lock, in which a signal handler or a finalizer can interrupt nothing: `threading.Event` and `Semaphore` are
    Python inside, and stay locked where a signal handler raises just then.
    """

    def __init__(self) -> None:
        self._none = _thread.allocate_lock()
        self._none.acquire()

    def make(self) -> None:
        """Let the waiting thread go on, or keep it from waiting the next time."""
        try:
            self._none.release()
        except RuntimeError as error:  # it is called already
            if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
                raise  # by a signal handler of the user's

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for a call, and take it; False where there was none for these seconds."""
        return self._none.acquire(timeout=-1 if seconds is None else max(0.0, seconds))

    def forget(self) -> None:
        """Take the call if there is one."""
        self._none.acquire(blocking=False)
