"""The ring between the training thread and the sender.

The training thread's whole part is `emit`: two calls into C (about 0.1 µs), no lock. A full ring loses its oldest
events; how many is exact, because what was ever emitted is counted apart from what was taken out.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from jaxobs.model.events import Event, StepRow


class Ring:
    """Bounded, many producers, one consumer. `emit` may run in a signal handler or a finalizer."""

    def __init__(self, capacity: int) -> None:
        self._events: deque[Event | StepRow] = deque(maxlen=capacity)
        self.append: Callable[[Event | StepRow], None] = self._events.append
        """With `advance` the two halves of `emit`, for the one caller whose every nanosecond counts."""
        # `next` of itertools.count is one C call, so it never loses an increment to another thread.
        self.advance = itertools.count(1).__next__
        self.emit = _emitter(self.append, self.advance)
        self._readings = 0  # how often the counter was advanced only to read it
        self._taken = 0

    def __len__(self) -> int:
        return len(self._events)

    def drain(self, limit: int | None = None) -> list[Event | StepRow]:
        """What is in the ring, oldest first, at most `limit` events. For one consumer at a time."""
        drained = []
        take = self._events.popleft
        # Bounded by what is there now: producers that never pause must not keep the consumer here.
        waiting = len(self._events)
        for _ in range(waiting if limit is None else min(limit, waiting)):
            try:
                drained.append(take())
            except IndexError:
                break
        self._taken += len(drained)
        return drained

    def waiting(self) -> list[Event | StepRow]:
        """What is in the ring now, oldest first; it stays there. From any thread."""
        return list(self._events)

    def close(self) -> None:
        """In a forked child, where nobody takes anything out: what is emitted from now on goes nowhere.

        Who holds `append` already, a loop under way, goes on filling the ring, which loses its oldest.
        """
        self.append = self.emit = _nowhere
        self._events.clear()

    def emitted(self) -> int:
        """Events emitted so far. For one consumer at a time."""
        count = self.advance() - 1 - self._readings
        self._readings += 1
        return count

    def dropped(self) -> int:
        """Events lost so far: exact when no `emit` is under way, else late by those under way."""
        waiting = len(self._events)
        return max(0, self.emitted() - self._taken - waiting)


def _nowhere(event: Event | StepRow) -> None:
    """Takes it and forgets it."""


def _emitter(
    append: Callable[[Event | StepRow], None], advance: Callable[[], int]
) -> Callable[[Event | StepRow], None]:
    """A closure: a third faster than a method, for what runs in every step."""

    def emit(event: Event | StepRow) -> None:
        append(event)
        advance()

    return emit
