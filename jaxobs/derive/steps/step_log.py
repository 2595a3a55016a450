"""A log of a loop's newest steps, in entries of one step or of many, up to a number of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from jaxobs.derive.steps.plain_steps import PlainSteps

Step = TypeVar("Step")


class StepLog(Generic[Step]):
    """Holds at most `most` steps, or the newest entry alone where that has more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: deque[Step | PlainSteps] = deque()
        self._count = 0

    def append(self, entry: Step | PlainSteps) -> None:
        self._entries.append(entry)
        self._count += _number(entry)
        while self._count > self._most and len(self._entries) > 1:
            self._count -= _number(self._entries.popleft())

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Step | PlainSteps]:
        return iter(self._entries)

    def __reversed__(self) -> Iterator[Step | PlainSteps]:
        return reversed(self._entries)


def _number(entry: object) -> int:
    return len(entry) if isinstance(entry, PlainSteps) else 1
