"""Charges a device's busy time to its operations, each moment once, in a whole trace and in parts of it.

Operations may overlap: on parallel streams, on the threads of a CPU, in a loop that spans its body. Each moment of busy
time goes, in equal parts, to the computations that run. Where none runs, it goes to the collectives, whose charge is
thus the exposed communication; where none of these runs either, to the copies; and where nothing runs inside a loop,
conditional or call, to the innermost one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Final

from jaxobs.model.intervals import Span, joined
from jaxobs.model.trace import Kind, StretchTime

Interval = tuple[int, int, int]
"""Start and end in picoseconds, and the operation's index."""

_RANK: Final[dict[Kind, int]] = {
    "compute": 0,
    "command_buffer": 0,
    "control": 0,
    "collective": 1,
    "transfer": 2,
    "copy": 3,
}
_RANKS: Final = 4


@dataclass(frozen=True, slots=True)
class Attribution:
    """Charges and times of a device's operations, in picoseconds."""

    charged: list[float]
    """The charge of each operation; the charges add up to `busy`."""
    busy: float
    together: tuple[int, ...]
    """By rank (computation, collective, transfer, copy), the time in which at least one such operation ran."""
    exposed: tuple[float, ...]
    """By rank, the time in which one ran and none of a lower rank did."""
    start: int
    end: int


def attribute(
    intervals: Sequence[Interval], kinds: Sequence[Kind], in_flight: Sequence[Interval] = ()
) -> Attribution:
    """Charge each moment of these intervals to operations; `kinds` are those of the operations.

    What was `in_flight` beside them counts in `together` alone.
    """
    charged = [0.0] * len(kinds)
    real = sorted([one for one in intervals if one[1] > one[0]])
    if not real:
        return Attribution(charged, 0.0, (0,) * _RANKS, (0.0,) * _RANKS, 0, 0)
    leaves = [interval for interval in real if kinds[interval[2]] != "control"]
    together, exposed = [0] * _RANKS, [0.0] * _RANKS
    ranks = [_RANK[kind] for kind in kinds]
    spans: list[Span] = []
    for cluster, reach in _clusters(leaves):
        spans.append((cluster[0][0], reach))
        _share(cluster, ranks, charged, together, exposed)
    containers = [interval for interval in real if kinds[interval[2]] == "control"]
    if containers:
        own = _uncovered(containers, _Covered(spans), charged)
        exposed[0] += own
        together[0] += round(own)
    for rank in {ranks[operation] for _, _, operation in in_flight} - {_RANK["compute"]}:
        running = joined((start, end) for start, end, one in (*real, *in_flight) if ranks[one] == rank)
        together[rank] = sum(end - start for start, end in running)
    end = max(interval[1] for interval in real)
    return Attribution(charged, sum(exposed), tuple(together), tuple(exposed), real[0][0], end)


def _clusters(intervals: Iterable[Interval]) -> Iterator[tuple[list[Interval], int]]:
    """Intervals that overlap, directly or through others, and where the last of them ends; in order."""
    cluster: list[Interval] = []
    reach = -1
    for interval in intervals:
        if interval[0] >= reach and cluster:
            yield cluster, reach
            cluster = []
        cluster.append(interval)
        reach = max(reach, interval[1])
    if cluster:
        yield cluster, reach


def _share(
    cluster: list[Interval], ranks: list[int], charged: list[float], together: list[int], exposed: list[float]
) -> None:
    """Charge a cluster of intervals that overlap."""
    if len(cluster) == 1:
        start, end, operation = cluster[0]
        rank = ranks[operation]
        charged[operation] += end - start
        together[rank] += end - start
        exposed[rank] += end - start
        return
    bounds = [(start, 1, at) for at, (start, _, _) in enumerate(cluster)]
    bounds += [(end, 0, at) for at, (_, end, _) in enumerate(cluster)]
    bounds = sorted(bounds)
    running = [0] * _RANKS
    # By rank, the charge so far of an operation that runs all the time: it makes the end of an operation O(1).
    level = [0.0] * _RANKS
    entered = [0.0] * len(cluster)
    last = bounds[0][0]
    for moment, begins, at in bounds:
        passed = moment - last
        if passed:
            last = moment
            lowest = -1
            for rank, count in enumerate(running):
                if count:
                    together[rank] += passed
                    if lowest < 0:
                        lowest = rank
            if lowest >= 0:
                exposed[lowest] += passed
                level[lowest] += passed / running[lowest]
        operation = cluster[at][2]
        rank = ranks[operation]
        if begins:
            running[rank] += 1
            entered[at] = level[rank]
        else:
            running[rank] -= 1
            charged[operation] += level[rank] - entered[at]


class _Covered:
    """Disjoint stretches of time in order, with the covered time before any moment."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts, self._ends = [start for start, _ in spans], [end for _, end in spans]
        self._before = [0, *accumulate(end - start for start, end in spans)]

    def until(self, moment: int) -> int:
        at = bisect_right(self._starts, moment) - 1
        if at < 0:
            return 0
        return self._before[at] + min(moment, self._ends[at]) - self._starts[at]

    def gaps(self, start: int, end: int) -> int:
        """The part of a stretch that is not covered, in picoseconds."""
        return end - start - (self.until(end) - self.until(start))


def _uncovered(containers: list[Interval], covered: _Covered, charged: list[float]) -> float:
    """Charge each container the time that no operation and no container begun later covers. Returns the sum."""
    stack: list[tuple[int, int]] = []  # end and operation, the one begun last on top
    total = 0.0
    outer_first = [(start, -end, operation) for start, end, operation in containers]
    for start, negated_end, operation in sorted(outer_first):
        end = -negated_end
        while stack and stack[-1][0] <= start:
            stack.pop()
        own = covered.gaps(start, end)
        charged[operation] += own
        total += own
        place = start
        for other_end, other in reversed(stack):
            if other_end > place:
                taken = covered.gaps(place, min(end, other_end))
                charged[other] -= taken
                total -= taken
                place = min(end, other_end)
            if place >= end:
                break
        stack.append((end, operation))
    return total


PICOSECONDS: Final = 1e12


def stretch_time(
    parts: Sequence[tuple[float, float]],
    intervals: Sequence[Interval],
    under_way: Sequence[Span],
    kinds: Sequence[Kind],
    shown: Sequence[int],
    runs: Sequence[tuple[Span, int | None]] = (),
    *,
    in_flight: Sequence[Interval] = (),
) -> StretchTime:
    """A device's times in these parts of a trace, given in seconds.

    `under_way`: the spans of runs, or parts of runs. `shown`: the operations whose charges are given, in order. `runs`:
    the whole runs, each with its program, where they are known.
    """
    spans = joined((round(start * PICOSECONDS), round(end * PICOSECONDS)) for start, end in parts)
    inside = list(_clipped(intervals, spans))
    under_way_inside = _clipped(((start, end, 0) for start, end in under_way), spans)
    found = attribute(inside, kinds, list(_clipped(in_flight, spans)))
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
    first: int = min(inside)[0]
    last: int = max(map(itemgetter(1), inside))
    longest = max(end - start for start, end, _ in inside)
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
