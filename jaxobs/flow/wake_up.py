"""Wakes a thread that waits for sockets."""

from __future__ import annotations

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
