"""The ring between the training thread and the sender.

The training thread's whole part is one call into C for a step (`extend`), and two for anything else (`emit`); no lock. A
full ring loses its oldest events; how many is exact, because what was ever emitted is counted apart from what was taken
out.

Everything lies in the ring as a row of ROW_LENGTH plain values, one after the other in one deque: a step as its own
values, any other event as itself and padding. So steps that wait here are no objects of their own. A tuple for each would
count with Python's garbage collector, and bring it to pass after pass in a job whose own loop makes no garbage.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat, starmap
from typing import Any

from jaxobs.model.events import ROW_LENGTH, Event, StepRows

PADDING: tuple[None, ...] = (None,) * (ROW_LENGTH - 1)
"""What follows an event that is no step: `extend((event, *PADDING))` is `emit` in one call, but for the counting."""

_AT_ONCE = 256
"""Rows taken out in one call, during which no other thread runs Python: 50 µs."""


class Ring:
    """Bounded, many producers, one consumer. `emit` may run in a signal handler or a finalizer."""

    def __init__(self, capacity: int) -> None:
        self._rows: deque[Any] = deque(maxlen=capacity * ROW_LENGTH)
        self.extend: Callable[[Iterable[Any]], None] = self._rows.extend
        """Takes a whole row. With `advance` it is `emit`, for the one caller whose every nanosecond counts."""
        # `next` of itertools.count is one C call, so it never loses an increment to another thread.
        self.advance = itertools.count(1).__next__
        self.emit = _emitter(self.extend, self.advance)
        self._readings = 0  # how often the counter was advanced only to read it
        self._taken = 0

    def __len__(self) -> int:
        return len(self._rows) // ROW_LENGTH

    def drain(self, limit: int | None = None) -> list[Event | StepRows]:
        """What is in the ring, oldest first, at most `limit` events; steps in a row are one list of their rows.

        For one consumer at a time.
        """
        # Bounded by what is there now: producers that never pause must not keep the consumer here.
        waiting = len(self) if limit is None else min(limit, len(self))
        pieces = []
        for start in range(0, waiting, _AT_ONCE):
            pieces.append(self._take(min(_AT_ONCE, waiting - start)))
            self._taken += len(pieces[-1]) // ROW_LENGTH
        return list(_grouped(list(chain.from_iterable(pieces))))

    def waiting(self) -> list[Event]:
        """The events in the ring now, but for steps, oldest first; they stay there. From any thread."""
        heads = list(islice(self._rows, 0, None, ROW_LENGTH))
        return [head for head in heads if type(head) is not str]

    def close(self) -> None:
        """In a forked child, where nobody takes anything out: what is emitted from now on goes nowhere.

        Who holds `extend` already, a loop under way, goes on filling the ring, which loses its oldest.
        """
        self.extend = self.emit = _nowhere
        self._rows.clear()

    def emitted(self) -> int:
        """Events emitted so far. For one consumer at a time."""
        count = self.advance() - 1 - self._readings
        self._readings += 1
        return count

    def dropped(self) -> int:
        """Events lost so far: exact when no `emit` is under way, else late by those under way."""
        waiting = len(self)
        return max(0, self.emitted() - self._taken - waiting)

    def _take(self, rows: int) -> list[Any]:
        """So many rows, which are there, in one call: whole rows, whatever is lost meanwhile for want of room."""
        return list(starmap(self._rows.popleft, repeat((), rows * ROW_LENGTH)))


def _grouped(values: list[Any]) -> Iterator[Event | StepRows]:
    """The events of some rows one by one, and the rows of steps between them together."""
    if set(map(type, values[::ROW_LENGTH])) == {str}:  # steps alone, as most often: in C
        yield values
        return
    begin = 0
    for at in range(0, len(values), ROW_LENGTH):
        if type(values[at]) is not str:  # a step's row begins with the name of its loop
            if begin < at:
                yield values[begin:at]
            yield values[at]
            begin = at + ROW_LENGTH
    if begin < len(values):
        yield values[begin:]


def _nowhere(event: Any) -> None:
    """Takes it and forgets it."""


def _emitter(extend: Callable[[Iterable[Any]], None], advance: Callable[[], int]) -> Callable[[Event], None]:
    """A closure: a third faster than a method."""

    def emit(event: Event) -> None:
        extend((event, *PADDING))
        advance()

    return emit
