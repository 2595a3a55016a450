"""Finds when an operation of a CPU device ended, which may be on another thread than the one that started it.

XLA's CPU runtime (openxla/xla, ``xla/backends/cpu/runtime/thunk_executor.cc``) writes an event while it starts an
operation, and a second one, ``end: name``, after the operation has ended; a flow id ties the two together. The second
one may come late: the thread that finishes an operation can go on with the next ones first, or lose its processor. So
an operation has ended by the earliest of

- its second event,
- the next operation of its run that the same thread begins in the same task of the thread pool (a loop, conditional or
  call is left out here: such operations may be its body's),
- the next execution of an instruction that uses its result, or of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set

from jaxobs.trace.attribution import Interval
from jaxobs.trace.timeline import LONGEST


class Endings:
    """The data that links a device's operations to their ends, in the order of its intervals."""

    def __init__(self) -> None:
        self.flows: list[tuple[bytes | None, bytes]] = []
        """Flow id and run of each operation."""
        self._lines: dict[int, tuple[int, int]] = {}
        self._begun: dict[tuple[int | None, bytes], list[tuple[int, int]]] = {}

    def add_line(self, number: int, first: int, last: int) -> None:
        """Note that the intervals from `first` to before `last` came from this line."""
        if last > first:
            self._lines[number] = (first, last)

    def applied(
        self,
        intervals: list[Interval],
        users: Sequence[frozenset[int]],
        containers: Set[int],
        ended: Mapping[bytes, tuple[int, int, int]],
    ) -> list[Interval]:
        """The intervals, extended to the ends of their operations.

        `users` are the operations that wait for each operation, `containers` those that run others; `ended` gives
        time, line and start of the task of each flow's second event.
        """
        longer = list(intervals)
        self._begun.clear()
        for at, (flow, run) in enumerate(self.flows):
            known = ended.get(flow) if flow is not None else None
            if known is None:
                continue
            start, end, operation = intervals[at]
            moment, line, task_start = known
            if end < moment <= start + LONGEST:
                if not self._begun:
                    self._sort(intervals)
                if operation not in containers:
                    moment = self._next(line, run, max(end, task_start), moment, None)
                moment = self._next(None, run, end, moment, users[operation])
                longer[at] = (start, moment, operation)
        return longer

    def runs(self, intervals: list[Interval]) -> tuple[dict[bytes, tuple[int, int]], dict[bytes, int]]:
        """For each run, the span from its first operation to the end of its last, and one of its operations.

        Empty where operations have no run id.
        """
        spans: dict[bytes, tuple[int, int]] = {}
        operations: dict[bytes, int] = {}
        for (_, run), (start, end, operation) in zip(self.flows, intervals, strict=True):
            if run:
                known = spans.get(run)
                spans[run] = (start, end) if known is None else (min(start, known[0]), max(end, known[1]))
                operations[run] = operation
        return spans, operations

    def operations_of(self, runs: Set[bytes], intervals: list[Interval]) -> dict[bytes, set[int]]:
        """All operations of these runs."""
        found: dict[bytes, set[int]] = {run: set() for run in runs}
        for (_, run), (_, _, operation) in zip(self.flows, intervals, strict=True):
            if run in found:
                found[run].add(operation)
        return found

    def _sort(self, intervals: list[Interval]) -> None:
        """Sort starts and operations, by line and run, and by run alone."""
        for number, (first, last) in self._lines.items():
            for at in range(first, last):
                begun = (intervals[at][0], intervals[at][2])
                run = self.flows[at][1]
                self._begun.setdefault((number, run), []).append(begun)
                self._begun.setdefault((None, run), []).append(begun)
        self._begun = {key: sorted(starts) for key, starts in self._begun.items()}

    def _next(
        self, line: int | None, run: bytes, after: int, until: int, wanted: frozenset[int] | None
    ) -> int:
        """When the run's next wanted operation began, on this line or any (None); `until` if none did before."""
        begun = self._begun.get((line, run), [])
        for place in range(bisect_left(begun, (after, -1)), len(begun)):
            start, operation = begun[place]
            if start >= until:
                break
            if wanted is None or operation in wanted:
                return start
        return until
