"""The user's loops, marked and found: their steps, where their time went, and how well the device was used."""

from __future__ import annotations

import contextlib
import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, repeat
from typing import NamedTuple

from jaxobs.derive.catalogue import HOST_STEP_BUCKETS, STEP_BUCKETS
from jaxobs.derive.compile_times import MAX_INTERVALS, CompileTimes
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.bottleneck import Charged, Known, charged
from jaxobs.derive.loops.found import LOOPS, InferredLoops
from jaxobs.derive.loops.host_lines import HostLine, HostLines, by_activity
from jaxobs.derive.loops.recorded import RecordedValue
from jaxobs.derive.loops.slowdowns import Pace
from jaxobs.derive.loops.stretches import LATE, MIN_SPACED_STEPS, WINDOW, Kind, Stretch, Stretches, summed
from jaxobs.derive.loops.utilization import LoopWork, Work, work_of
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.profiler_windows.parts import LoopSpans
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.derive.refusal import Refusals, is_amount, require
from jaxobs.derive.series import Histogram
from jaxobs.derive.steps import AMOUNTS, Steps
from jaxobs.model.clock import NANOSECONDS, each_in_seconds, seconds
from jaxobs.model.events import (
    MAX_GAP,
    RAN,
    RECORDED_NAMES,
    LoopDeclared,
    LoopEnded,
    MainThreadSampled,
    PhaseEnded,
    Recorded,
    StepCompleted,
)
from jaxobs.model.figure import Figure, figure
from jaxobs.model.metrics import Exemplar
from jaxobs.vocabulary.activities import ACTIVITIES, DISPATCH
from jaxobs.vocabulary.text import MAX_LOOP_NAMES, MAX_NUMBER
from jaxobs.vocabulary.units import duration
from jaxobs.vocabulary.words import CHECKPOINT, COMPONENTS

LONG_SPACING = 1.0
"""Seconds of a spacing of fewer steps from which on it tells so, too: polls come every 50 ms at most, so both ends
together are known to a twentieth."""

CALLS_BESIDE = 10_000
"""Most reports of calls on other threads that are kept until a stretch ends."""

BLOCK_SECONDS = 1.0
"""Least seconds of turns whose mean is a step time where nothing is watched: with a sync every twenty steps the turn's
median was 7 µs and its maximum 227 ms for true 10 ms steps."""


MAX_LOOPS = MAX_LOOP_NAMES + 1 + LOOPS + 1
"""Most loops: those marked, the one of further names, those found, and one of recorded values. Events of more are refused
and counted."""

GONE = 600 * NANOSECONDS
"""Nanoseconds without a step after which a loop counts as over: an evaluation between two epochs takes minutes."""

ROUNDING = 1e-3
"""Seconds by which the samples of about a second may add up to more than it."""


class RoomsOfLoops(NamedTuple):
    """The other rooms that every loop of the job uses."""

    refusals: Refusals
    compiles: CompileTimes
    executables: Executables
    profiles: Profiles


class Loop:
    """State of one loop, by the name the user gave it."""

    def __init__(self, name: str, rooms: RoomsOfLoops) -> None:
        self.name = name
        self._refusals, self._compiles, self._executables, self._profiles = rooms
        self.inferred = False
        """Whether nobody marked the loop, and it was found by what repeats."""
        self.steps = 0
        self.failed = 0
        self.wall = 0.0
        self.components: dict[str, float] = dict.fromkeys(COMPONENTS, 0.0)
        self.recorded: dict[str, RecordedValue] = {}
        self.stretches = Stretches(self._observe)
        self.spans = self._profiles.loops[name] = LoopSpans(self.stretches.log)
        self._phases: deque[PhaseEnded] = deque(maxlen=MAX_INTERVALS)
        """Phases, such as evaluations, in a step that has not ended yet."""
        self.pace = Pace()
        self.host = HostLines()
        self.thread = 0
        """That of its newest steps."""
        self.last_end: int | None = None
        """When its last step ended, in monotonic nanoseconds."""
        self.step_times, self.host_times = Histogram(STEP_BUCKETS), Histogram(HOST_STEP_BUCKETS)
        self._amounts: dict[str, float | None] = dict.fromkeys(AMOUNTS)
        self._refused: set[str] = set()
        self._block = Stretch()
        self.beside: deque[tuple[int, Mapping[int, int]]] = deque(maxlen=CALLS_BESIDE)
        """What other threads have called since a stretch ended, by number, and when that was told."""
        self.work = LoopWork(self._executables)
        self._compiled: dict[str, int] = {}
        """When executables of a function were last made in its steps, by the function."""
        self.whole, self.rated, self.did = Stretch(), Stretch(), Work()
        """The newest stretches, those of them that rates are over, and what the runs in these did."""
        self.charged = Charged({})
        """Where the time of the newest stretches went, by what is known now."""
        self.quiet: str | None = None
        self.late: str | None = None
        """Where the job is over and the loop was quiet before: how old its figures are."""
        self.gone: int | None = None
        """When its last step ended, where that is so long ago that the loop counts as over."""
        self._over = False
        self._left: int | None = None
        self.left_seconds: float | None = None
        """Seconds since its iteration ended; None while it is under way."""
        self.profile: Figure[LoopProfile] = Figure(None)

    def steps_ended(self, steps: Steps) -> list[StepCompleted]:
        """Add steps, and note on them what compiled in them; return their completions that came earlier.

        Raises ValueError, and changes nothing, where it cannot. Many steps at once are refused where one of them has
        more to tell than columns hold: they are added singly.
        """
        single = len(steps) == 1
        require(steps.are_sound(), "a step of negative duration")
        while self._phases:  # what was compiled in one belongs to it, and not to the step
            phase = self._phases.popleft()
            self._compiles.take(steps.thread, phase.start, phase.end)
        if not self._compiles.is_apart(steps.thread, steps.begin):
            require(single, "a compile in one of many steps")
            self._note_compiles(steps)
        if not single:
            require(not steps.are_interrupted(), "steps that lie apart")
            for total in steps.amounts.values():
                require(is_amount(total or 0.0), "amounts that are not all there")
        if steps.begin < (told := self.last_end or 0):  # of several threads at a time: a wait counts once
            require(single, "steps beside others")
            waited = max(steps.compiling_in_wait, told - steps.starts[0])
            steps.compiling_in_wait = min(steps.waits[0], waited)
        if told and steps.begin - told > MAX_GAP:
            self.host.take(steps.begin)  # it may have been between two steps, and was not
        self.steps += len(steps)
        self.failed += steps.failed
        self.last_end, self._left = max(steps.end, told), None
        for word, total in steps.amounts.items():
            if total is not None:
                self._count(word, total)
        self.work.ran(steps.runs)
        self._executables.ran(steps.runs)
        self.host_times.observe_all(each_in_seconds(steps.turns))
        return self.stretches.steps_ended(steps)

    @property
    def usual_turn(self) -> float:
        """Seconds of the host's turn on average; 0 before the first."""
        turns = self.host_times.value()
        return turns.sum / max(1, turns.count)

    def _note_compiles(self, steps: Steps) -> None:
        """Note the compiles in a single step, which no step around it gets then."""
        compiles, thread, start = self._compiles, steps.thread, steps.starts[0]
        waiting = compiles.overlap(thread, start, start + steps.waits[0])
        steps.compiling_in_wait = min(waiting, steps.waits[0])
        compiling, functions = compiles.take(thread, steps.begin, steps.end)
        steps.compiling = min(steps.turns[0], compiling)
        self._compiled |= dict.fromkeys(functions, steps.end)

    def _count(self, word: str, total: float) -> None:
        """Add the user's amounts for some steps, together; NaN is refused."""
        if is_amount(total):
            self._amounts[word] = min((self._amounts[word] or 0.0) + total, MAX_NUMBER)
        else:
            self._refused.add(word)
            self._refusals.refuse(f"{word}= of loop `{self.name}`: no finite, positive number")

    def amount(self, word: str) -> Figure[float]:
        """How many examples or tokens its steps have had, or why there is no such number."""
        if word not in self._refused:
            return figure(self._amounts[word], f"{word}= was not given")
        reason = f"{word}= raised, or gave no finite, positive number (an array on the device is not read)"
        return Figure(self._amounts[word], reason)

    def declared(self, event: LoopDeclared) -> None:
        flops = event.model_flops
        require(is_amount(flops) and flops > 0, "model FLOPs that are no positive number")
        self.work.model_flops = flops

    def entered(self) -> None:
        """Its first step has begun, and it is marked."""
        self.inferred, self._left = False, None

    def ended(self, event: LoopEnded) -> None:
        require(event.input_wait >= 0, "a wait of negative duration")
        self._left = self.spans.left = event.time
        self.stretches.loop_ended(event.input_wait, event.time)

    def phase_ended(self, event: PhaseEnded) -> None:
        """Note a phase that lay inside a step."""
        self._phases.append(event)
        if event.phase != CHECKPOINT:
            self.spans.phases.append((event.start, event.end))

    def record(self, event: Recorded) -> None:
        require(event.name in self.recorded or len(self.recorded) < RECORDED_NAMES, "too many recorded names")
        value = self.recorded.setdefault(event.name, RecordedValue())
        if event.located:  # the value itself comes in an event of its own
            value.located = event.located
        else:
            value.add(event.value, self.steps)

    def update(self, now: int, *, running: bool = False, final: bool = False) -> None:
        """Charge the stretches that ended since the last call, and sum up the newest ones.

        `running`: a run is known to be under way for long. `final`: nothing more will be known of any step, and the
        newest stretches describe the loop however long ago they were.
        """
        self._over = self._over or final
        self.left_seconds = None if self._left is None else seconds(now - self._left)
        self.profile = self._profiles.of(self.name, now, self._compiled)
        ended = self.stretches.take(now, self.host, wait=running, final=final)
        if final:
            self.host.take(now)  # sampled after the loop, as nobody told its end
        self.whole, self.rated = self.stretches.whole(), self.stretches.rated()
        known = Known(
            self._executables, self.profile.value, by_activity(self.whole.sampled), self.stretches.idle_at_ends,
            self.stretches.watched, self.unwatched(),
        )  # fmt: skip
        if ended:
            self.pace.add(ended)
            self._charge(charged(summed(ended), known))
        self.work.count()
        self.quiet, self.late = _why_quiet(self.whole, now), None
        self.gone = self.whole.end if self.quiet is not None and now - self.whole.end > GONE else None
        if self._over and self.whole.steps and self.quiet is not None:
            ago = duration(seconds(now - self.whole.end))
            self.quiet, self.late = None, f"of its last half minute, which ended {ago} before the run"
        if self.quiet is not None:
            self.whole = self.rated = Stretch()
        if self.failed == self.steps:
            self.rated = Stretch()
        self.did = work_of(self.rated.runs, self._executables)
        wall, least = self.rated.wall, self.did.least_untimed
        room = wall - least if least < wall else wall
        self._executables.had(self.rated.runs, room, self.did.device_seconds)
        # By what is known now: a profiler window shows what the steps before it did, too.
        self.charged = charged(self.whole, known)
        self.charged.reason = self.quiet or self.charged.reason

    def _charge(self, new: Charged) -> None:
        self.wall += sum(new.components.values())
        for word, amount in new.components.items():
            self.components[word] += amount
        self._executables.spent(new.spent)
        self._executables.ran_untimed(new.untimed, new.room)

    def _observe(self, ended: Stretch) -> None:
        """Observe the step times of a stretch: each where they are known singly, else their mean for each of them."""
        begin = ended.end - round(ended.wall * NANOSECONDS) - NANOSECONDS  # as calls are told once a second
        while self.beside:
            time, runs = self.beside.popleft()
            ended.beside.update(runs if time >= begin else ())
        if ended.turns:
            self.step_times.observe_all(ended.turns)
        elif ended.kind is Kind.SEEN and ended.steps and not ended.compiled:
            self.step_times.observe(ended.wall / ended.steps, ended.steps)
        elif ended.kind is Kind.UNWATCHED and not ended.compiled:
            self._block.add(ended)
            if self._block.steps and self._block.wall >= BLOCK_SECONDS:
                self.step_times.observe(self._block.wall / self._block.steps, self._block.steps)
                self._block = Stretch()
        if ended.spacing and (ended.turns or ended.steps >= MIN_SPACED_STEPS or ended.wall >= LONG_SPACING):
            each = statistics.median(ended.turns) if ended.turns else ended.wall / ended.steps
            is_all = ended.ahead and self.unwatched() is None and not self.whole.beside
            self._executables.spaced(ended.spacing, each, ahead=is_all)

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """Attach the exemplar of a step's span to the histogram buckets that hold the step's times."""
        if (turn := self.stretches.turn_of(step)) is not None:
            at = replace(exemplar, value=turn)
            self.host_times.exemplify(at)
            if self.stretches.host_waits:
                self.step_times.exemplify(at)
        if self.stretches.newest is not None and self.stretches.newest[0] == step:
            at = replace(exemplar, value=self.stretches.newest[1])
            self.step_times.exemplify(at)

    def iterations(self) -> int | None:
        """Iterations of the loop in which an executable that ran of late does most of its work."""
        ran = map(self._executables.get, self.whole.runs)
        return next((each.iterations for each in ran if each is not None and each.iterations), None)

    def unwatched(self) -> str | None:
        """A function that runs in this loop unwatched, so that not all device time is known; None if there is none."""
        return next((name for name in sorted(self._compiled) if not self._executables.is_watched(name)), None)


def _why_quiet(newest: Stretch, now: int) -> str | None:
    """Why the newest stretches are too old to describe the loop now; None where they are not."""
    silence = now - newest.end
    longest = LATE * newest.wall / newest.steps if newest.steps else 0.0
    if newest.end == 0 or silence <= WINDOW or seconds(silence) <= longest:
        return None
    return f"no step has ended for {duration(seconds(silence))}"


class Loops:
    """All loops by name, each created when it is first named."""

    def __init__(self, rooms: RoomsOfLoops) -> None:
        self._rooms = rooms
        self.by_name: dict[str, Loop] = {}
        self._newest: dict[int, Loop] = {}
        """The loop of each thread's newest steps."""
        self.inferred = InferredLoops(
            rooms.executables.title_of,
            rooms.compiles.overlap,
            rooms.executables.at_most_seconds_of,
            lambda name: name in self.by_name and self.by_name[name].stretches.host_waits,
        )
        self.dispatch = DISPATCH
        """What a thread does that is on a processor in a call of JAX's: the host's work, but on a CPU the device's."""
        self.outside = HostLines()
        """Where the main thread was outside loops."""
        self._unplaced: dict[str, Recorded] = {}
        """Newest recorded values, by name, that name no loop while one may still be found."""

    def of(self, steps: Steps) -> Loop:
        """The loop of steps that ended. Where those before them on their thread are another loop's, it is told."""
        loop, before = self.named(steps.loop), self._newest.get(steps.thread)
        if before is not None and before is not loop:
            before.stretches.followed_by(loop.stretches, steps)
        self._newest[steps.thread], loop.thread = loop, steps.thread
        self.called(steps.thread, steps.runs, steps.end)
        return loop

    def called(self, thread: int, runs: Mapping[int, int], time: int) -> None:
        """A thread has called these, by number: beside the loops of others."""
        for loop in self.by_name.values():
            if thread not in {0, loop.thread}:
                loop.beside.append((time, runs))

    @property
    def steps(self) -> int:
        """Steps of all loops so far."""
        return sum(loop.steps for loop in self.by_name.values())

    def named(self, name: str) -> Loop:
        """The loop of that name. Raises ValueError where there are too many already."""
        loop = self.by_name.get(name)
        if loop is None:
            if len(self.by_name) >= MAX_LOOPS:
                raise ValueError(f"more than {MAX_LOOPS} loops")
            loop = self.by_name[name] = Loop(name, self._rooms)
        return loop

    def recorded(self, event: Recorded) -> None:
        """Record a value of the user's; one that names no loop belongs to that under way, or whose step ended last.

        Without any loop it belongs to `train`.
        """
        newest = max(self.by_name.values(), key=lambda loop: loop.last_end or 0, default=None)
        name = event.loop or self.inferred.under_way() or (newest and newest.name)
        if name is None and self.inferred.undecided_since is not None:
            self._unplaced[event.name] = event  # its loop may be found yet
            return
        values, self._unplaced = [*self._unplaced.values(), event], {}
        for value in values:
            self.named(name or "train").record(value)

    def place_recorded(self) -> None:
        """Place the values that wait for a loop: no further loop will be found."""
        with contextlib.suppress(ValueError):  # there are too many loops for one more to hold them
            for event in list(self._unplaced.values()):
                self.recorded(event)

    def main_thread_sampled(self, event: MainThreadSampled) -> None:
        for *_, activity, spent, samples in event.rows:
            require(activity in ACTIVITIES, "an activity that there is not")
            require(is_amount(spent) and samples >= 0, "sampled time that is no duration")
        together, room = sum(row[4] for row in event.rows), seconds(event.end - event.start)
        require(0.0 <= together <= room + ROUNDING, "more samples than there was time")
        middle = (event.start + event.end) // 2
        for row, callers in zip(event.rows, chain(event.callers, repeat(())), strict=False):
            name, line, waits_in, activity, spent, samples = row
            activity = self.dispatch if activity == DISPATCH else activity
            if name.startswith(RAN):
                name = self.inferred.loop_of(int(name.removeprefix(RAN)))
            host = self.by_name[name].host if name in self.by_name else self.outside
            host.add(HostLine(line, waits_in, activity), spent, samples, callers, middle)
