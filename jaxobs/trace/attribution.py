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
from heapq import heappop, heappush
from operator import itemgetter
from typing import Final, TypeVar

from jaxobs.model.intervals import Span, joined
from jaxobs.model.trace import Kind, StretchTime

Interval = tuple[int, int, int]
"""Start and end in picoseconds, and the operation's index."""
Run = tuple[int, int, int | None]
"""A run of a program: start of its first operation and end of its last in picoseconds, and the program's id."""
Told = TypeVar("Told")

_RANK: Final[dict[Kind, int]] = {"compute": 0, "command_buffer": 0, "collective": 1, "transfer": 2, "copy": 3}
_RANKS: Final = 4
_CONTAINER: Final = -1
"""In place of a rank, that of a loop, conditional or call: its own time counts as computation."""


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
    together, exposed = [0] * _RANKS, [0.0] * _RANKS
    ranks = [_CONTAINER if kind == "control" else _RANK[kind] for kind in kinds]
    for cluster in _clusters(real):
        _share(cluster, ranks, charged, together, exposed)
    for rank in {ranks[operation] for _, _, operation in in_flight} - {_CONTAINER, _RANK["compute"]}:
        running = joined((start, end) for start, end, one in (*real, *in_flight) if ranks[one] == rank)
        together[rank] = sum(end - start for start, end in running)
    end = max(interval[1] for interval in real)
    return Attribution(charged, sum(exposed), tuple(together), tuple(exposed), real[0][0], end)


def _clusters(intervals: Iterable[Interval]) -> Iterator[list[Interval]]:
    """Intervals that overlap, directly or through others; in order."""
    cluster: list[Interval] = []
    reach = -1
    for interval in intervals:
        if interval[0] >= reach and cluster:
            yield cluster
            cluster = []
        cluster.append(interval)
        reach = max(reach, interval[1])
    if cluster:
        yield cluster


def _share(
    cluster: list[Interval], ranks: list[int], charged: list[float], together: list[int], exposed: list[float]
) -> None:
    """Charge a cluster of intervals that overlap."""
    if len(cluster) == 1:
        start, end, operation = cluster[0]
        rank = max(0, ranks[operation])
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
    # Negated start, end and operation: the one begun last comes first.
    containers: list[tuple[int, int, int]] = []
    last = bounds[0][0]
    for moment, begins, at in bounds:
        passed = moment - last
        if passed:
            ran = [rank for rank, count in enumerate(running) if count]
            if ran:
                level[ran[0]] += passed / running[ran[0]]
            else:
                ran = [_RANK["compute"]]
                charged[_innermost(containers, last)] += passed
            exposed[ran[0]] += passed
            for rank in ran:
                together[rank] += passed
            last = moment
        start, end, operation = cluster[at]
        rank = ranks[operation]
        if rank == _CONTAINER:
            if begins:
                heappush(containers, (-start, end, operation))
        elif begins:
            running[rank] += 1
            entered[at] = level[rank]
        else:
            running[rank] -= 1
            charged[operation] += level[rank] - entered[at]


def _innermost(containers: list[tuple[int, int, int]], moment: int) -> int:
    """The container begun last of those that go on beyond a moment; ended ones are dropped from the heap."""
    while containers[0][1] <= moment:
        heappop(containers)
    return containers[0][2]


PICOSECONDS: Final = 1e12


def stretch_time(
    parts: Sequence[tuple[float, float]],
    intervals: Sequence[Interval],
    under_way: Sequence[Run],
    kinds: Sequence[Kind],
    shown: Sequence[int],
    runs: Sequence[Run] = (),
    *,
    in_flight: Sequence[Interval] = (),
) -> StretchTime:
    """A device's times in these parts of a trace, given in seconds.

    `under_way`: runs, or parts of runs. `shown`: the operations whose charges are given, in order. `runs`: the whole
    runs, where they are known.
    """
    spans = spans_of(parts)
    inside = list(clipped(intervals, spans))
    found = attribute(inside, kinds, list(clipped(in_flight, spans)))
    return StretchTime(
        seconds=_length(spans) / PICOSECONDS,
        busy_seconds=found.busy / PICOSECONDS,
        gap_seconds=gap_seconds(inside, clipped(under_way, spans)),
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


def _runs_inside(runs: Sequence[Run], spans: Sequence[Span]) -> dict[int | None, tuple[int, float]]:
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    found: dict[int | None, tuple[int, float]] = {}
    for start, end, program in runs:
        at = bisect_right(starts, start) - 1
        if at >= 0 and end <= ends[at]:
            count, total = found.get(program, (0, 0.0))
            found[program] = (count + 1, total + (end - start) / PICOSECONDS)
    return found


def gap_seconds(intervals: Iterable[Interval], runs: Iterable[Run]) -> float:
    """The seconds in which a run was under way and no operation ran."""
    busy, under_way = ([(start, end) for start, end, _ in each] for each in (intervals, runs))
    return (_length(joined(busy + under_way)) - _length(joined(busy))) / PICOSECONDS


def _length(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)


def spans_of(parts: Sequence[tuple[float, float]]) -> list[Span]:
    """The union of these parts of a trace, given in seconds, in picoseconds."""
    return joined((round(start * PICOSECONDS), round(end * PICOSECONDS)) for start, end in parts)


def clipped(
    intervals: Iterable[tuple[int, int, Told]], spans: Sequence[Span]
) -> Iterator[tuple[int, int, Told]]:
    """The parts of intervals that lie in these spans, which are sorted and disjoint."""
    starts, ends = [start for start, _ in spans], [end for _, end in spans]
    for start, end, told in intervals:
        for at in range(bisect_right(ends, start), bisect_left(starts, end)):
            yield max(start, starts[at]), min(end, ends[at]), told
