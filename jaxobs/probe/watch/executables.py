"""The record of executables and who compiled them, from which a watched function knows what it runs."""

from __future__ import annotations

import itertools
import threading
import weakref
from dataclasses import dataclass
from types import MethodType
from typing import Any

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
        self._makers: dict[int, tuple[weakref.ref[Any] | None, ...]] = {}
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

    def compiled_by(self, function: Any, executables: list[int]) -> None:
        """Note that a call of this jitted function was seen to compile these executables."""
        made_by = tuple(map(_reference, _parts(function)))
        self._makers.update(dict.fromkeys(executables, made_by))

    def of(self, name: str, function: Any) -> list[int]:
        """All executables of that name so far, by any thread, but for those that another function compiled."""
        parts = _parts(function)
        found = [created.executable for created in self._created if created.function == name]
        return [executable for executable in found if self._may_be_of(executable, parts)]

    def _may_be_of(self, executable: int, parts: tuple[Any, ...]) -> bool:
        made_by = self._makers.get(executable)
        return made_by is None or (
            len(made_by) == len(parts)
            and all(
                reference is None or reference() is part
                for reference, part in zip(made_by, parts, strict=True)
            )
        )


def _parts(function: Any) -> tuple[Any, ...]:
    """What identifies the function that was jitted: jitted twice it has one executable, and a method is made anew."""
    wrapped = getattr(function, "__wrapped__", function)
    return (wrapped.__self__, wrapped.__func__) if type(wrapped) is MethodType else (wrapped,)


def _reference(part: Any) -> weakref.ref[Any] | None:
    """A weak reference; None to what has none, such as a NamedTuple with methods, which then may be any."""
    try:
        return weakref.ref(part)
    except TypeError:
        return None
