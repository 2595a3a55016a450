"""Calls of watched functions outside any marked step, told one by one, so that the agent can find the loops they make."""

from __future__ import annotations

import threading

from jaxobs.flow.ring import Ring
from jaxobs.model.events import UNMARKED


class UnmarkedCalls:
    """Notes the main thread's, as long as the script marks no step: steps that it marks are its loops."""

    __slots__ = ("_advance", "_extend", "_main", "count", "off")

    def __init__(self, ring: Ring) -> None:
        self._extend, self._advance = ring.extend, ring.advance
        self._main = threading.main_thread().ident
        self.count = 0
        self.off = False

    def note(self, run: int, started: int, ended: int) -> int:
        """The call's number, from 1 on; 0 where it is only to be counted."""
        thread = threading.get_ident()
        if self.off or thread != self._main:
            return 0
        self.count = number = self.count + 1
        self._extend((UNMARKED, number, started, ended, 0, 0, ended - started, None, None, thread, run))
        self._advance()
        return number
