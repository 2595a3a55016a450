"""Long work in short stretches: what walks over thousands of things calls `between` every few of them.

The work itself stays pure. Whoever must not keep a core, or an interpreter lock, for long passes a function that gives it
up from time to time; by default nothing happens.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

Between = Callable[[], None]
"""Called without arguments between two stretches of work."""

STRETCH: Final = 16
"""Things from one call to the next: at the 2 to 10 µs that one takes (measured: a pass over an instruction, an event of a
trace, the bound of an operation) less than 0.2 ms."""

SORTED_AT_ONCE: Final = 1024
"""Sorting so many tuples takes about 0.3 ms (measured)."""

Thing = TypeVar("Thing")


def nothing() -> None:
    """The `between` of those who need not give way."""


def paced(things: Sequence[Thing], between: Between) -> Iterator[Thing]:
    """The things in order, `between` called before every STRETCH of them."""
    for start in range(0, len(things), STRETCH):
        between()
        yield from things[start : start + STRETCH]


def used_up(things: list[Thing], between: Between) -> Iterator[Thing]:
    """As `paced`, from the last to the first, each taken out of the list.

    Letting go of a long list at once would be one long stretch.
    """
    while things:
        between()
        part = things[-STRETCH:]
        del things[-STRETCH:]
        while part:
            yield part.pop()


def empty(known: dict[Any, Any], between: Between) -> None:
    """Take everything out of a mapping, a few at a time."""
    while known:
        between()
        for _ in range(min(STRETCH, len(known))):
            known.popitem()


def paced_sorted(things: Sequence[Any], between: Between) -> list[Any]:
    """As `sorted`; of many, parts are sorted and then merged, since the interpreter sorts in one stretch."""
    if len(things) <= SORTED_AT_ONCE:
        between()
        return sorted(things)
    parts = []
    for start in range(0, len(things), SORTED_AT_ONCE):
        between()
        parts.append(sorted(things[start : start + SORTED_AT_ONCE]))
    merged = []
    for position, thing in enumerate(heapq.merge(*parts)):
        if position % STRETCH == 0:
            between()
        merged.append(thing)
    return merged
