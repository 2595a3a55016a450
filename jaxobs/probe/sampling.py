"""A thread on which probes are sampled in turns, and which nobody waits for while one of them hangs."""

from __future__ import annotations

from collections.abc import Callable

from jaxobs.flow.wake_up import Call
from jaxobs.model.clock import thread_time
from jaxobs.plugin.threads import Flag, Thread


def _nothing() -> None:
    pass


class Turns:
    """Calls `first`, then `turn` each time that `begin` is called, and `last` after `stop`, all on one thread.

    None may raise. Raises RuntimeError where no thread can be started. `awaited`: as of `Thread`.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], None],
        *,
        first: Callable[[], None] = _nothing,
        last: Callable[[], None] = _nothing,
        awaited: bool = True,
    ) -> None:
        self.cpu_seconds = 0.0
        self._turn = turn
        self._first = first
        self._last = last
        self._wanted = Call()
        self._ending = False
        self._done = Flag()
        self._under_way = False
        self._thread = Thread(name, self._run, awaited=awaited)

    def begin(self) -> Flag:
        """Begin a turn, unless the one before has not ended. Returns what is set at its end."""
        if not self._under_way:
            self._under_way, self._done = True, Flag()
            self._wanted.make()
        return self._done

    def stop(self) -> None:
        """Let the thread end after what is under way."""
        self._ending = True
        self._wanted.make()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread, after `stop`, for `timeout` seconds at most. Returns whether it came."""
        return self._thread.join(timeout)

    def _run(self) -> None:
        self._first()
        while self._wanted.wait() and not self._ending:
            self._turn()
            self.cpu_seconds = thread_time()
            self._under_way = False
            self._done.set()
        self._last()
