"""Computes a device's time in parts of a trace, and the gaps inside the runs of its modules."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from jaxobs.model.intervals import Span, joined
from jaxobs.model.trace import Kind, StretchTime
from jaxobs.trace.attribution import Interval, attribute

PICOSECONDS: Final = 1e12


def stretch_time(
    parts: Sequence[tuple[float, float]],
    intervals: Sequence[Interval],
    under_way: Sequence[Span],
    kinds: Sequence[Kind],
    shown: Sequence[int],
    runs: Sequence[tuple[Span, int | None]] = (),
) -> StretchTime:
    """A device's times in these parts of a trace, given in seconds.

    `under_way`: the spans of runs, or parts of runs. `shown`: the operations whose charges are given, in order. `runs`:
    the whole runs, each with its program, where they are known.
    """
    spans = joined((round(start * PICOSECONDS), round(end * PICOSECONDS)) for start, end in parts)
    inside = list(_clipped(intervals, spans))
    under_way_inside = _clipped(((start, end, 0) for start, end in under_way), spans)
    found = attribute(inside, kinds)
    return StretchTime(
        seconds=_length(spans) / PICOSECONDS,
        busy_seconds=found.busy / PICOSECONDS,
        gap_seconds=gap_seconds(inside, [(start, end) for start, end, _ in under_way_inside]),
        charged_seconds=tuple(found.charged[at] / PICOSECONDS for at in shown),
        collective_seconds=found.together[1] / PICOSECONDS,
        runs=_runs_inside(runs, spans),
        edge_seconds=_edges(inside, spans) / PICOSECONDS,
    )


def _edges(inside: Sequence[Interval], spans: Sequence[Span]) -> int:
    """Picoseconds of `StretchTime.edge_seconds`."""
    if not inside:
        return 0
    first, last, longest = inside[0][0], 0, 0
    for start, end, _ in inside:
        if start < first:  # noqa: PLR1730  # min() and max() take three times as long, of millions of operations
            first = start
        if end > last:  # noqa: PLR1730
            last = end
        if end - start > longest:  # noqa: PLR1730
            longest = end - start
    before = sum(min(end, first) - start for start, end in spans if start < first)
    after = sum(end - max(start, last) for start, end in spans if end > last)
    return min(before, longest) + min(after, longest)


def _runs_inside(
    runs: Sequence[tuple[Span, int | None]], spans: Sequence[Span]
) -> dict[int | None, tuple[int, float]]:
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    found: dict[int | None, tuple[int, float]] = {}
    for (start, end), program in runs:
        at = bisect_right(starts, start) - 1
        if at >= 0 and end <= ends[at]:
            count, total = found.get(program, (0, 0.0))
            found[program] = (count + 1, total + (end - start) / PICOSECONDS)
    return found


def gap_seconds(intervals: Sequence[Interval], runs: Iterable[Span]) -> float:
    """The seconds in which a run was under way and no operation ran."""
    busy = [(start, end) for start, end, _ in intervals]
    return (_length(joined([*busy, *runs])) - _length(joined(busy))) / PICOSECONDS


def _length(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)


def _clipped(intervals: Iterable[Interval], spans: Sequence[Span]) -> Iterable[Interval]:
    """The parts of intervals that lie in these spans, which are sorted and disjoint."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    for start, end, operation in intervals:
        for at in range(bisect_right(ends, start), bisect_left(starts, end)):
            yield max(start, starts[at]), min(end, ends[at]), operation
