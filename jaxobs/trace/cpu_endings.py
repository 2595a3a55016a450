"""When an operation of a CPU device ended, which may be on another thread than the one that started it.

XLA's CPU runtime (openxla/xla, ``xla/backends/cpu/runtime/thunk_executor.cc``) writes an event while it starts an
operation, and a second one, ``end: name``, after the operation has ended; a flow id ties the two together. The thread
that finishes an operation may go on with the next ones before it writes the second event, so that this comes late:
where, in the same task of the thread pool, it began another operation of the same run first, that is the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from jaxobs.trace.attribution import Interval
from jaxobs.trace.timeline import LONGEST


class Endings:
    """For one device: what ties its operations to their ends, in the order of its intervals."""

    def __init__(self) -> None:
        self.flows: list[tuple[bytes | None, bytes]] = []
        """Flow id and run of each operation."""
        self._lines: dict[int, tuple[str, int, int]] = {}
        self._sorted: dict[int, list[tuple[int, bytes]]] = {}

    def add_line(self, name: str, number: int, first: int, last: int) -> None:
        """The intervals from `first` to before `last` came from this line."""
        if last > first:
            self._lines[number] = (name, first, last)

    def applied(
        self, intervals: list[Interval], ended: Mapping[bytes, tuple[int, int, int]]
    ) -> list[Interval]:
        """The intervals up to their ends; `ended` gives time, line and start of the task of each flow's second event."""
        longer = list(intervals)
        for at, (flow, run) in enumerate(self.flows):
            known = ended.get(flow) if flow is not None else None
            if known is None:
                continue
            start, end, operation = intervals[at]
            moment, line, task_start = known
            if end < moment <= start + LONGEST:
                longer[at] = (
                    start,
                    self._next(intervals, line, max(end, task_start), moment, run),
                    operation,
                )
        return longer

    def threads(self, intervals: list[Interval]) -> dict[str, list[tuple[int, int]]]:
        """Starts and ends by the name of the thread."""
        found: dict[str, list[tuple[int, int]]] = {}
        for name, first, last in self._lines.values():
            found.setdefault(name, []).extend((start, end) for start, end, _ in intervals[first:last])
        return found

    def _next(self, intervals: list[Interval], line: int, after: int, moment: int, run: bytes) -> int:
        """When this thread began an operation of this run after a moment; `moment` where it did not before that."""
        begun = self._sorted.get(line)
        if begun is None:
            _, first, last = self._lines.get(line, ("", 0, 0))
            begun = sorted((intervals[at][0], self.flows[at][1]) for at in range(first, last))
            self._sorted[line] = begun
        for place in range(bisect_right(begun, after, key=lambda one: one[0]), len(begun)):
            start, other = begun[place]
            if start >= moment:
                break
            if other == run:
                return start
        return moment
