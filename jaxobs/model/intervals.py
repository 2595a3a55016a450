"""Unions of stretches of time, which may overlap, as those of several threads do."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]
"""Start and end, mostly in nanoseconds."""


def joined(spans: Iterable[Span]) -> list[Span]:
    """The union of these spans, in order; those that touch become one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def overlap(one: Span, other: Span) -> int:
    """The length of what two spans have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


class Intervals:
    """A union of [start, end) in nanoseconds, taken from its beginning."""

    def __init__(self) -> None:
        self._parts: list[Span] = []

    def add(self, start: int, end: int) -> None:
        self._parts.append((start, end))

    def take(self, until: int) -> int:
        """Remove the time before `until`, and return its length in nanoseconds."""
        taken = 0
        later = []
        for start, end in joined(self._parts):
            taken += max(0, min(end, until) - start)
            if end > until:
                later.append((max(start, until), end))
        self._parts = later
        return taken
