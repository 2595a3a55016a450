"""The ring between the training thread and the sender.

The training thread makes two calls into C for each event, to add a row (`extend`) and to count it (`advance`), and
takes no lock. A full ring drops its oldest events; their number is exact, because events emitted are counted apart from
those taken out.

The ring is one deque of plain values in which ROW_LENGTH values make a row: a step is its own values, any other event
is itself and padding. So a step that waits here is no object. A tuple for each would be tracked by Python's garbage
collector, and bring it to pass after pass in a job whose own loop makes no garbage.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat, starmap
from typing import Any

from jaxobs.model.events import ROW_LENGTH, Event, StepRows

PADDING: tuple[None, ...] = (None,) * (ROW_LENGTH - 1)
"""The rest of the row of an event that is no step: `extend((event, *PADDING))` is `emit` without the counting."""

_AT_ONCE = 256
"""Most rows taken out in one call, during which no other thread runs Python: 50 µs."""


class Ring:
    """A bounded queue of events, many producers, one consumer. Signal handlers and finalizers may call `emit`."""

    def __init__(self, capacity: int) -> None:
        self._rows: deque[Any] = deque(maxlen=capacity * ROW_LENGTH)
        self.extend: Callable[[Iterable[Any]], None] = self._rows.extend
        """Adds a whole row. `extend` and then `advance` do what `emit` does, for the hot path."""
        # `next` of itertools.count is one C call, so it never loses an increment to another thread.
        self.advance = itertools.count(1).__next__
        self.emit = _emitter(self.extend, self.advance)
        self._readings = 0  # how often the counter was advanced only to read it
        self._taken = 0

    def __len__(self) -> int:
        return len(self._rows) // ROW_LENGTH

    def drain(self, limit: int | None = None) -> list[Event | StepRows]:
        """Take out at most `limit` events, oldest first. Consecutive steps are one list, of the values of their rows.

        For one consumer at a time.
        """
        # Bounded by the events there are now: producers that never pause must not keep the consumer here.
        waiting = len(self) if limit is None else min(limit, len(self))
        pieces = []
        for start in range(0, waiting, _AT_ONCE):
            pieces.append(self._take(min(_AT_ONCE, waiting - start)))
            self._taken += len(pieces[-1]) // ROW_LENGTH
        return list(_grouped(list(chain.from_iterable(pieces))))

    def waiting(self) -> list[Event]:
        """The events in the ring now except steps, oldest first, left where they are. May be called from any thread."""
        heads = list(islice(self._rows, 0, None, ROW_LENGTH))
        return [head for head in heads if type(head) is not str]

    def close(self) -> None:
        """Discard everything from now on; for a forked child, where nothing is taken out.

        A loop under way holds the old `extend` and goes on filling the ring, which drops its oldest events.
        """
        self.extend = self.emit = _nowhere
        self._rows.clear()

    def emitted(self) -> int:
        """The number of events emitted so far. For one consumer at a time."""
        count = self.advance() - 1 - self._readings
        self._readings += 1
        return count

    def dropped(self) -> int:
        """The number of events lost so far: exact when no `emit` is under way, else too low by at most those."""
        waiting = len(self)
        return max(0, self.emitted() - self._taken - waiting)

    def _take(self, rows: int) -> list[Any]:
        """Take out so many rows, which must be there, in one call into C, so that no producer's row is split."""
        return list(starmap(self._rows.popleft, repeat((), rows * ROW_LENGTH)))


def _grouped(values: list[Any]) -> Iterator[Event | StepRows]:
    """Yield the events of some rows one by one, and the rows of consecutive steps as one list."""
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
    """Discard an event or a row."""


def _emitter(extend: Callable[[Iterable[Any]], None], advance: Callable[[], int]) -> Callable[[Event], None]:
    """Make `Ring.emit` as a closure, which is a third faster than a method."""

    def emit(event: Event) -> None:
        extend((event, *PADDING))
        advance()

    return emit
