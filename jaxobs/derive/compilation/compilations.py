"""Compiles: how many, how long, of which function, and which are under way."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from jaxobs.derive.compilation.persistent_cache import PersistentCache
from jaxobs.derive.compilation.recompilations import Recompilations, RecompilationView
from jaxobs.derive.metrics.catalogue import compilation_metrics
from jaxobs.derive.metrics.selection import Largest, Selection
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import Compilation, CompilePhaseEnded, CompilePhaseStarted, PhaseEnded
from jaxobs.model.figure import Figure
from jaxobs.vocabulary.text import EAGER, OTHER
from jaxobs.vocabulary.words import PHASES

INTERVALS_KEPT = 10_000
"""Outermost compile intervals kept for each thread; a step is charged those that overlap it."""

LONGEST_BRIDGE = NANOSECONDS // 20
"""Longest gap between the phases of one compile that counts as compiling. Gaps of 0.3 to 8 ms were measured in a
compile of 150 ms."""


LISTED = 300
"""Functions listed in a snapshot: of thousands that were compiled, those that took longest matter."""


@dataclass(frozen=True, slots=True)
class FunctionView:
    """What compiling a function took; `seconds` are by phase."""

    compilations: int
    recompilation_count: int
    recompilations: Sequence[RecompilationView]
    """The most expensive reason first."""
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many functions are not listed, and their compile seconds."""

    functions_left_out: Figure[int]
    functions_left_out_seconds: float


class Compiles:
    """Counts and seconds of compiles by function, and those in flight. `limit` functions have series of their own."""

    def __init__(self, series: Series, limit: int) -> None:
        self._series = series
        self._selection: Selection[str] = Selection(limit)
        self.count: Counter[str] = Counter()
        self.recompilations = Recompilations(series)
        self.persistent_cache = PersistentCache(series)
        self.seconds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._weights: dict[str, tuple[float, ...]] = {}
        self._largest: Largest[str] = Largest(LISTED)
        self._seconds_in_all = 0.0
        self._changed: set[str] = set()
        self.views: dict[str, FunctionView] = {}
        """Views of the listed functions at the last `update`, those with the most seconds first."""
        self._compiled: defaultdict[int, deque[Compilation]] = defaultdict(
            lambda: deque(maxlen=INTERVALS_KEPT)
        )
        self._in_flight: dict[int, CompilePhaseStarted] = {}
        self._phases: deque[PhaseEnded] = deque(maxlen=INTERVALS_KEPT)
        """Phases inside steps that have not ended yet."""
        self._intervals: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        for phase in PHASES:
            series.total(compilation_metrics.COMPILE_FUNCTION_SECONDS, (OTHER, phase), 0.0)

    def phase_started(self, event: CompilePhaseStarted) -> None:
        # Only outermost phases are reported, so a thread has at most one: a new one replaces one whose end was lost.
        self._in_flight[event.thread] = event

    def phase_ended(self, event: CompilePhaseEnded) -> None:
        require(event.end >= event.start and event.exclusive >= 0, "a compile phase of negative duration")
        own = seconds(event.exclusive)
        self._seconds_in_all += own
        self.seconds[event.function][event.phase] += own  # type: ignore[assignment]  # Counter adds floats as well
        self._changed.add(event.function)
        if event.outermost:
            self._in_flight.pop(event.thread, None)
            intervals = self._intervals[event.thread]
            intervals.append((event.start, event.end))
            del intervals[:-INTERVALS_KEPT]
        self._series.observe(compilation_metrics.COMPILE_SECONDS, (event.phase,), own)

    def events_lost(self) -> None:
        """Forget the compiles in flight: their ends may be among the events that were lost."""
        self._in_flight.clear()

    def in_flight_since(self) -> int | None:
        """When the oldest compile in flight began; None where none is."""
        return min((event.time for event in self._in_flight.values()), default=None)

    def compiled(self, event: Compilation) -> None:
        self.count[event.function] += 1
        self._changed.add(event.function)
        if event.function != EAGER:
            self._compiled[event.thread].append(event)
        self._bridge(event)
        self.recompilations.compiled(event)
        self.persistent_cache.compiled(event)

    def _bridge(self, event: Compilation) -> None:
        """Extend the thread's intervals over the gaps between a compile's phases and after its last one.

        That time is compiling too, but JAX reports it in no phase. Gaps longer than LONGEST_BRIDGE are left, as the
        user's own code may lie in them, between `.lower()` and `.compile()`.
        """
        phases = sorted((begin, stop) for _, begin, stop in event.phases)
        intervals = self._intervals[event.thread]
        for (_, before), (after, _) in pairwise([*phases, (event.time, event.time)]):
            if not 0 < after - before <= LONGEST_BRIDGE:
                continue
            at = len(intervals) - 1
            while at >= 0 and intervals[at][1] > before:
                at -= 1
            if at < 0 or intervals[at][1] != before:
                continue
            following = intervals[at + 1] if at + 1 < len(intervals) else None
            if following is not None and following[0] == after:
                intervals[at : at + 2] = [(intervals[at][0], following[1])]
            elif following is None:
                intervals[at] = (intervals[at][0], after)

    def compiled_within(self, thread: int, start: int, end: int) -> set[str]:
        """Take the functions that the thread compiled in [start, end]. The innermost step asks first and gets them."""
        compiled = self._compiled.get(thread)
        if not compiled:
            return set()
        within, later = set(), []
        while compiled and compiled[-1].time >= start:  # a thread's compiles end one after the other
            last = compiled.pop()
            if last.time <= end:
                within.add(last.function)
            else:
                later.append(last)
        compiled.extend(reversed(later))
        if not compiled:
            del self._compiled[thread]
        return within

    def phase_in_step_ended(self, event: PhaseEnded) -> None:
        """Note a phase, such as an evaluation, that lay inside a step; one outside steps changes nothing."""
        if event.inside is not None:
            self._phases.append(event)

    def leave_out_phases(self, loop: str, thread: int) -> None:
        """Drop what the thread compiled in phases of the loop's step: it belongs to the phase, not to the step."""
        for _ in range(len(self._phases)):
            phase = self._phases.popleft()
            if phase.inside != loop:
                self._phases.append(phase)
                continue
            self.overlap(thread, phase.start, phase.end, forget=True)
            self.compiled_within(thread, phase.start, phase.end)

    def is_apart(self, thread: int, start: int) -> bool:
        """Whether the thread has compiled nothing since `start` that is known and was not claimed by an inner step."""
        intervals, compiled = self._intervals.get(thread), self._compiled.get(thread)
        return not (intervals and intervals[-1][1] > start) and not (compiled and compiled[-1].time >= start)

    def overlap(self, thread: int, start: int, end: int, *, forget: bool) -> int:
        """Nanoseconds of [start, end] in which the thread was compiling; `forget`: drop the intervals that lie in it.

        Dropping them keeps the step around an inner loop from claiming what a step of the inner loop has claimed, while
        what the outer step had compiled before the inner loop began is still there for it.
        """
        intervals = self._intervals.get(thread)
        if not intervals:
            return 0
        found = 0
        for index in range(len(intervals) - 1, -1, -1):
            begin, stop = intervals[index]
            if stop <= start:
                break  # a thread's outermost compiles end one after the other
            found += max(0, min(stop, end) - max(begin, start))
            if forget and begin >= start and stop <= end:
                del intervals[index]
        return found

    def within(self, thread: int, start: int, end: int) -> int:
        """Nanoseconds of [start, end] in which the thread was compiling; the intervals are kept."""
        return self.overlap(thread, start, end, forget=False)

    def anywhere_within(self, start: int, end: int) -> int:
        """Nanoseconds of [start, end] that the thread which compiled for longest in it was compiling."""
        known = [self.within(thread, start, end) for thread in self._intervals]
        under_way = [max(0, end - max(start, event.time)) for event in self._in_flight.values()]
        return max([0, *known, *under_way])

    def update(self, now: int) -> None:
        """Bring the series up to date. The cost grows with the functions that changed, not with all functions."""
        changed, self._changed = sorted(self._changed), set()
        for name in changed:
            self._weights[name] = (sum(self.seconds[name].values()), float(self.count[name]))
        shown = self._selection.choose(self._weights, changed)
        listed, kept = self._largest.update(self._weights, changed), self.views.keys() - set(changed)
        self.views = {name: self.views[name] if name in kept else self._view(name) for name in listed}
        for name in changed:
            label, total = name if name in shown else OTHER, self._series.total
            total(compilation_metrics.COMPILATIONS, (label,), self.count[name], (name,))
            for phase, amount in self.seconds[name].items():
                total(compilation_metrics.COMPILE_FUNCTION_SECONDS, (label, phase), amount, (name, phase))
            for cause, times in self.recompilations.counts[name].items():
                total(compilation_metrics.RECOMPILATIONS, (label, cause), times, (name, cause))
        oldest: dict[str, int] = {}
        for event in self._in_flight.values():
            oldest[event.function] = min(event.time, oldest.get(event.function, event.time))
        in_flight = (
            ((name,), seconds(now - since))
            for name, since in oldest.items()
            if name in shown or name not in self._weights
        )
        self._series.replace(compilation_metrics.COMPILING, in_flight)

    def left_out(self) -> LeftOut:
        count = len(self._weights) - len(self.views)
        listed = sum(self._weights[name][0] for name in self.views)
        return LeftOut(
            Figure(count, f"the {LISTED} with the most seconds are listed" if count else None),
            max(0.0, self._seconds_in_all - listed) if count else 0.0,
        )

    def _view(self, name: str) -> FunctionView:
        return FunctionView(
            self.count[name],
            sum(self.recompilations.counts[name].values()),
            self.recompilations.views(name),
            {phase: float(self.seconds[name].get(phase, 0.0)) for phase in PHASES},
        )
