"""When each thread was compiling, and what: loops charge their steps for it, and runs beside it are doubted."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Final

from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import Compilation, CompilePhaseEnded, CompilePhaseStarted
from jaxobs.model.intervals import overlap
from jaxobs.vocabulary.text import EAGER

MAX_INTERVALS: Final = 10_000
"""Outermost compile intervals kept for each thread; a step is charged those that overlap it."""

MAX_GAP: Final = NANOSECONDS // 20
"""Longest gap between the phases of one compile that counts as compiling. Gaps of 0.3 to 8 ms were measured in a
compile of 150 ms."""


class CompileTimes:
    """The intervals in which each thread was compiling, and the compiles in progress; times in nanoseconds."""

    def __init__(self) -> None:
        self._intervals: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._compiled: defaultdict[int, list[Compilation]] = defaultdict(list)
        self._in_progress: dict[int, CompilePhaseStarted] = {}

    def phase_started(self, event: CompilePhaseStarted) -> None:
        # Only outermost phases are reported, so a thread has at most one: a new one replaces one whose end was lost.
        self._in_progress[event.thread] = event

    def phase_ended(self, event: CompilePhaseEnded) -> None:
        if event.outermost:
            self._in_progress.pop(event.thread, None)
            intervals = self._intervals[event.thread]
            intervals.append((event.start, event.end))
            del intervals[:-MAX_INTERVALS]

    def events_lost(self) -> None:
        """Forget the compiles in progress: their ends may be among the events that were lost."""
        self._in_progress.clear()

    def in_progress_since(self) -> int | None:
        """When the oldest compile in progress began; None if there is none."""
        return min((event.time for event in self._in_progress.values()), default=None)

    def in_progress(self, now: int) -> dict[str, float]:
        """Seconds for which each function has been compiling by now."""
        oldest: dict[str, int] = {}
        for event in self._in_progress.values():
            oldest[event.function] = min(event.time, oldest.get(event.function, event.time))
        return {function: seconds(now - since) for function, since in oldest.items()}

    def phases_in_progress(self) -> dict[str, str]:
        """The phase of compiling that each of these functions is in: `trace`, `lower` or `backend`."""
        return {event.function: event.phase for event in self._in_progress.values()}

    def compiled(self, event: Compilation) -> None:
        """Add a compile, and extend the thread's intervals over the gaps between its phases and after its last one.

        That time is compiling too, but JAX reports it in no phase. Gaps longer than MAX_GAP are left, as the user's own
        code may lie in them, between `.lower()` and `.compile()`.
        """
        if event.function != EAGER:
            self._compiled[event.thread].append(event)
            del self._compiled[event.thread][:-MAX_INTERVALS]
        phases = sorted((begin, stop) for _, begin, stop in event.phases)
        intervals = self._intervals[event.thread]
        for (_, before), (after, _) in pairwise([*phases, (event.time, event.time)]):
            at = bisect_left(intervals, before, key=itemgetter(1))
            if not 0 < after - before <= MAX_GAP or at == len(intervals) or intervals[at][1] != before:
                continue
            if at + 1 == len(intervals) or intervals[at + 1][0] == after:
                intervals.insert(at + 1, (before, after))

    def take(self, thread: int, start: int, end: int) -> tuple[int, set[str]]:
        """Nanoseconds of [start, end] in which the thread was compiling, and the functions that it compiled there.

        What lies in it is forgotten, so that the step around an inner loop does not claim what a step of the inner loop
        has claimed, while what the outer step had compiled before the inner loop began is still there for it.
        """
        spent, intervals, compiled = (
            self.overlap(thread, start, end),
            self._intervals[thread],
            self._compiled[thread],
        )
        time, first, last = attrgetter("time"), itemgetter(0), itemgetter(1)
        del intervals[bisect_left(intervals, start, key=first) : bisect_right(intervals, end, key=last)]
        within = slice(bisect_left(compiled, start, key=time), bisect_right(compiled, end, key=time))
        functions = {each.function for each in compiled[within]}
        del compiled[within]
        return spent, functions

    def is_apart(self, thread: int, start: int) -> bool:
        """Whether the thread has compiled nothing since `start` that is known and was not claimed by an inner step."""
        intervals, compiled = self._intervals.get(thread), self._compiled.get(thread)
        return not (intervals and intervals[-1][1] > start) and not (compiled and compiled[-1].time >= start)

    def overlap(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds of [start, end] in which the thread was compiling."""
        found = 0
        for span in reversed(self._intervals.get(thread, ())):
            if span[1] <= start:
                break  # a thread's outermost compiles end one after the other
            found += overlap(span, (start, end))
        return found

    def anywhere_within(self, start: int, end: int) -> int:
        """Nanoseconds of [start, end] that the thread which compiled for longest in it was compiling."""
        known = [self.overlap(thread, start, end) for thread in self._intervals]
        in_progress = [max(0, end - max(start, event.time)) for event in self._in_progress.values()]
        return max([0, *known, *in_progress])
