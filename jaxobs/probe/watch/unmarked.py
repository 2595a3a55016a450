"""Calls of watched functions outside any marked step, told one by one, so that the agent can find the loops they make."""

from __future__ import annotations

import threading

from jaxobs.flow.ring import Ring
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import UNMARKED

MAIN_THREAD_SILENT = 10 * NANOSECONDS
"""After so long without a call of the main thread's, another that calls is the one that trains. One that prepares input
beside a main thread whose steps take longer is followed until the next of them, and never again."""


class UnmarkedCalls:
    """Notes those of the thread that trains, as long as the script marks no step: steps that it marks are its loops.

    That is the main thread, unless it is silent.
    """

    __slots__ = ("_advance", "_extend", "_followed", "_latest", "_main", "_may_be_another", "count", "off")

    def __init__(self, ring: Ring) -> None:
        self._extend, self._advance = ring.extend, ring.advance
        self._main = self._followed = threading.main_thread().ident
        self._latest = 0
        """When the last call of the thread that is followed began."""
        self._may_be_another = True
        self.count = 0
        self.off = False

    def note(self, run: int, started: int, ended: int) -> int:
        """The call's number, from 1 on; 0 where it is only to be counted."""
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
