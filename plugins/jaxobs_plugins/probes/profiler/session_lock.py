"""Keeps profiler sessions apart: JAX allows one at a time, and the user's have precedence over ours.

When two sessions overlap, the second one's constructor succeeds and its `stop()` raises: the user would lose a trace.
"""

from __future__ import annotations

import threading


class SessionLock:
    """Lock between our thread, which records, and the user's threads, which begin and end sessions of their own."""

    def __init__(self) -> None:
        # `with` takes the lock itself and not the condition, whose `__enter__` is Python code: a signal handler that
        # raises within it would leave the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._ours = False
        self._users = 0
        self.stopped = False

    def begin_ours(self) -> bool:
        """Claim the profiler for a session of ours. False where the user has a session, or is about to."""
        with self._lock:
            if self._users or self.stopped:
                return False
            self._ours = True
            return True

    def record(self, seconds: float) -> bool:
        """Wait while our session records for `seconds`. False as soon as the user wants a session, or after `stop`."""
        with self._lock:
            return not self._changed.wait_for(lambda: self._users > 0 or self.stopped, seconds)

    def end_ours(self) -> None:
        with self._lock:
            self._ours = False
            self._changed.notify_all()

    def user_comes(self, patience: float) -> None:
        """Announce a session of the user's, and wait for ours to end, at most `patience` seconds."""
        with self._lock:
            self._users += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._ours, patience)

    def user_goes(self) -> None:
        with self._lock:
            self._users = max(0, self._users - 1)

    def stop(self) -> None:
        """Let no session of ours begin any more, and end the one under way at once."""
        with self._lock:
            self.stopped = True
            self._changed.notify_all()
