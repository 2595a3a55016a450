"""Whose turn it is: JAX has one profiler session at a time, and the user's own goes first.

When two sessions overlap, JAX lets the second constructor succeed and its `stop()` raise: the user would lose a trace.
"""

from __future__ import annotations

import threading


class SessionLock:
    """Shared by our thread, which records, and the user's threads, which begin and end sessions of their own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ours = False
        self._users = 0
        self._stopped = False

    def begin_ours(self) -> bool:
        """False where the user has a session, or is about to."""
        with self._changed:
            if self._users or self._stopped:
                return False
            self._ours = True
            return True

    def record(self, seconds: float) -> bool:
        """Let ours record for so long. False as soon as the user wants a session, or all is over."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._users > 0 or self._stopped, seconds)

    def end_ours(self) -> None:
        with self._changed:
            self._ours = False
            self._changed.notify_all()

    def user_comes(self, patience: float) -> None:
        """Before the user's session is made: wait until ours is over, no longer than `patience` seconds."""
        with self._changed:
            self._users += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._ours, patience)

    def user_goes(self) -> None:
        with self._changed:
            self._users = max(0, self._users - 1)

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """No window of ours begins any more, and one under way ends at once."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
