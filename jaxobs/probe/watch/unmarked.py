"""Reports calls of watched functions outside any marked step one by one, from which the agent infers the loops."""

from __future__ import annotations

import threading

from jaxobs.flow.ring import Ring
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import UNMARKED

MAIN_THREAD_SILENT = 10 * NANOSECONDS
"""Nanoseconds without a call on the main thread after which another thread that calls counts as the one that trains.
One that prepares input beside slower steps of the main thread is followed until the next of them, and never again."""


class UnmarkedCalls:
    """Notes the calls of the thread that trains, until the script marks a step: marked steps make the loops then.

    The thread that trains is the main thread, unless it is silent for MAIN_THREAD_SILENT.
    """

    __slots__ = ("_advance", "_extend", "_followed", "_latest", "_main", "_may_be_another", "count", "off")

    def __init__(self, ring: Ring) -> None:
        self._extend, self._advance = ring.extend, ring.advance
        self._main = self._followed = threading.main_thread().ident
        self._latest = 0
        """When the last call on the followed thread began."""
        self._may_be_another = True
        self.count = 0
        self.off = False

    def note(self, run: int, started: int, ended: int) -> int:
        """Emit the call as a row of the ring. Returns its number, from 1 on; 0 where the caller shall only count it."""
        thread = threading.get_ident()
        if self.off or (thread != self._followed and not self._follow(thread, started)):
            return 0
        self.count = number = self.count + 1
        self._latest = started
        self._extend((UNMARKED, number, started, ended, 0, 0, ended - started, None, None, thread, run))
        self._advance()
        return number

    def _follow(self, thread: int, started: int) -> bool:
        """Whether this thread is to be followed from now on."""
        if thread == self._main:
            self._may_be_another = False
        elif not self._may_be_another or started - self._latest < MAIN_THREAD_SILENT:
            return False
        self._followed = thread
        return True
