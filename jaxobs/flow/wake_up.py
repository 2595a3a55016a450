"""What wakes a thread that waits for sockets."""

from __future__ import annotations

import contextlib
import socket


class WakeUp:
    """One thread waits for `reading` beside its other sockets; any thread may `ring`.

    Raises OSError where there is no file descriptor to be had.
    """

    def __init__(self) -> None:
        self.reading, self._writing = socket.socketpair()
        self.reading.setblocking(False)
        self._writing.setblocking(False)

    def ring(self) -> None:
        """Wake the thread that waits, or the next time that it would."""
        with contextlib.suppress(OSError):  # full: it will wake anyway; closed: it is over
            self._writing.send(b"\0")

    def heard(self) -> None:
        """It is awake: the next wait is a new one."""
        with contextlib.suppress(OSError):
            self.reading.recv(4096)

    def close(self) -> None:
        """Wake nobody any more."""
        self.reading.close()
        self._writing.close()
