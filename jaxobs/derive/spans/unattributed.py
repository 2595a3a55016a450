"""Compiles that wait for the step they delayed, which is known only when it ends and is the parent of their spans."""

from __future__ import annotations

from collections import deque

from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import Compilation

PATIENCE = 60 * NANOSECONDS
"""Time after which a compile is shown without a step: there is no loop, or its first step takes longer than this."""


class UnattributedCompiles:
    """Waiting compiles by thread, in the order in which they ended: a step looks only at those since it began."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[Compilation]] = {}

    def add(self, compilation: Compilation) -> None:
        self._waiting.setdefault(compilation.thread, deque()).append(compilation)

    def within(self, thread: int, start: int, end: int) -> list[Compilation]:
        """Take the compilations that lay in a thread's step [start, end]. The innermost step asks first."""
        waiting = self._waiting.get(thread)
        inside: list[Compilation] = []
        others: list[Compilation] = []
        while waiting and ended(waiting[-1]) >= start:
            last = waiting.pop()
            (inside if start <= began(last) and ended(last) <= end else others).append(last)
        if waiting is not None:
            waiting.extend(reversed(others))
        return inside[::-1]

    def ended_before(self, time: int) -> list[Compilation]:
        """Take the compilations that ended before that time."""
        late = []
        for thread, waiting in list(self._waiting.items()):
            while waiting and ended(waiting[0]) < time:
                late.append(waiting.popleft())
            if not waiting:
                del self._waiting[thread]
        return late


def began(compilation: Compilation) -> int:
    """When the compilation's first phase began."""
    return min((begin for _, begin, _ in compilation.phases), default=compilation.time)


def ended(compilation: Compilation) -> int:
    """When the compilation's last phase ended or it was reported, whichever is later."""
    return max([compilation.time, *(stop for _, _, stop in compilation.phases)])
