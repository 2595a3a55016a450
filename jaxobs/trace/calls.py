"""Counts the calls of jitted functions in parts of a trace."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jaxobs.model.intervals import joined
from jaxobs.trace.stretches import PICOSECONDS

Call = tuple[int, int, int, str]
"""Line of the host's plane (a thread), start and negated end in picoseconds, and the function's name."""


def calls_in(
    stretches: Mapping[str, Sequence[tuple[float, float]]], calls: Iterable[Call]
) -> dict[str, Counter[str]]:
    """Calls that begin in each stretch (starts and ends in seconds), by function; stretches without any are absent."""
    begun = list(outermost(calls)) if stretches else []
    found: dict[str, Counter[str]] = {}
    for name, parts in stretches.items():
        spans = joined((round(start * PICOSECONDS), round(end * PICOSECONDS)) for start, end in parts)
        starts = [start for start, _ in spans]
        for start, function in begun:
            at = bisect_right(starts, start) - 1
            if at >= 0 and start < spans[at][1]:
                found.setdefault(name, Counter())[function] += 1
    return found


def outermost(calls: Iterable[Call]) -> Iterable[tuple[int, str]]:
    """Start and function of each call; calls inside one of the same function on the same thread are part of it."""
    open_until: dict[tuple[int, str], int] = {}
    for line, start, negated_end, function in sorted(calls):
        if start >= open_until.get((line, function), -1):
            open_until[line, function] = -negated_end
            yield start, function
