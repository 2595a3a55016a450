"""The record of executables and who compiled them, from which a watched function knows what it runs."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

from jaxobs.model.clock import now


@dataclass(frozen=True, slots=True)
class Created:
    """One executable that appeared: its number, the function it was compiled for, the thread that compiled it."""

    executable: int
    function: str
    thread: int


class Executables:
    """All executables so far. The probe that sees compiles appends to it; watched functions read it.

    `count` is a plain attribute so that the hot path can tell with one look whether anything was compiled meanwhile.
    """

    def __init__(self) -> None:
        self.count = 0
        self.made_at = 0
        """When the newest was recorded, by `now()`."""
        self._created: list[Created] = []
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()  # a finalizer that compiles may run within

    def number(self) -> int:
        return next(self._numbers)

    def created(self, function: str, executable: int) -> None:
        with self._lock:
            self._created.append(Created(executable, function, threading.get_ident()))
            self.made_at = now()
            self.count = len(self._created)

    def since(self, count: int, function: str) -> list[int]:
        """Executables made for that function by the current thread after `count` was read."""
        thread = threading.get_ident()
        return [
            created.executable
            for created in self._created[count:]
            if created.function == function and created.thread == thread
        ]

    def newest_since(self, count: int) -> Created | None:
        """The last executable that the current thread made after `count` was read."""
        thread = threading.get_ident()
        return next((made for made in reversed(self._created[count:]) if made.thread == thread), None)

    def of(self, function: str) -> list[int]:
        """All executables made for a function of that name so far, by any thread."""
        return [created.executable for created in self._created if created.function == function]
