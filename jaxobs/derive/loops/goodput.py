"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import NamedTuple

from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.loops.stretches import IN_FLIGHT
from jaxobs.derive.refusal import require
from jaxobs.derive.steps import Steps
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import MAX_GAP, CompilePhaseEnded, LoopEnded, LoopEntered, PhaseEnded, PhaseStarted
from jaxobs.model.figure import Figure
from jaxobs.model.intervals import Intervals
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import duration, percent
from jaxobs.vocabulary.words import CATEGORIES

STEPS_WAITED_FOR = 3
"""Usual steps after which a loop that ends no step, and that is no iteration, is taken to be over: steps may take
minutes, and their time is known at their end."""

MAX_COMPILE = 3600 * NANOSECONDS
"""Longest time for which a compile, a phase or the first step of a loop holds the charging back: its end may have been
dropped. A compile or phase that takes longer is charged as it passes."""

ENOUGH_SECONDS = 2.0
"""Least seconds of steps, or of a run outside steps, that count as the job's work: as long as a run must last to be
reported while it lasts (`LONG_RUN` of the probe)."""

NOT_MARKED = "no step was marked and no loop found, so nothing says what was productive: mark the loop with obs.steps()"

MAX_LOST = 0.01
"""Share of dropped events above which there is no goodput: most are steps, whose time then seems to lie elsewhere."""

DROPPED = "{} of the events were dropped, and with them what the time went into"

TOO_SHORT = "less than two seconds of steps were seen, in less than a minute"

UNDER_WAY = "what the last {} went into is known once the step, compile, phase or loop under way has ended"

HELD_BACK = 0.1
"""Part of the time charged above which what is not charged yet is told: by so much goodput may be off."""

TURNED_AWAY = (
    "without the time in `{}` and any other function that repeats but the first eight: mark its loop"
)

AGENT_LOST = "of the time since {} after the start: the agent was lost, and with it what it had counted"

OF_LOOPS = ("compile", "productive", "input", "checkpoint")
"""Categories whose seconds come from loops."""

NOT_PRODUCTIVE = ("compile", "input", "checkpoint")


def seconds_by_category(loops: Iterable[Loop]) -> dict[str, float]:
    """Seconds of each category in `OF_LOOPS`, summed over all loops.

    The checkpoints of a loop that nobody marked are phases of the run as well, and not counted a second time here.
    """
    known = dict.fromkeys(OF_LOOPS, 0.0)
    for loop in loops:
        known["productive"] += max(0.0, loop.wall - sum(loop.components[word] for word in NOT_PRODUCTIVE))
        for word in NOT_PRODUCTIVE:
            known[word] += 0.0 if word == "checkpoint" and loop.inferred else loop.components[word]
    return known


PHASES = ("checkpoint", "initialisation")
"""Phases that are categories; time in any other phase is `other`."""

MAX_PHASES = 20
"""Names of phases whose seconds are known by name: they are written by hand."""


class RunSeconds:
    """The seconds charged to each category. A moment once charged stays as it is, so no category ever falls."""

    def __init__(self, began: int) -> None:
        self._until = began
        self._intervals = {name: Intervals() for name in ("compile", *PHASES)}
        """Compiles, in or outside loops, and phases outside loops; each with those before it, to be told without them:
        a phase in which something compiles has the rest of its time."""
        self.by_category = dict.fromkeys(CATEGORIES, 0.0)

    def add(self, category: str, start: int, end: int) -> None:
        """Add the part of a compile or phase that was not charged yet.

        Loops inside a phase are charged first, as it is not known when they ran in it.
        """
        start = max(start, self._until)
        if category in self._intervals and start < end:
            for word in dropwhile(lambda word: word != category, self._intervals):
                self._intervals[word].add(start, end)

    def charge(self, until: int, reported: Mapping[str, float], rest: str) -> dict[str, float]:
        """Charge the time up to `until`: what loops `reported`, then compiles and phases outside them, then the `rest`.

        Compiles in loops come first: their intervals lie before `until`, other seconds of loops may lie after it.
        Returns the seconds of `reported` for which there was no time left.
        """
        left = seconds(max(0, until - self._until))
        if left <= 0:
            return dict(reported)
        self._until = until
        own, before = {}, 0
        for word, intervals in self._intervals.items():
            taken = intervals.take(until)
            own[word] = seconds(taken - before)
            before = taken
        over = {}
        for word, amount in reported.items():
            given = self._charge_to(word, amount, min(left, own[word]) if word == "compile" else left)
            over[word] = amount - given
            left -= given
            if word == "compile":
                own[word] -= given
        for word, amount in own.items():
            left -= self._charge_to(word, amount, left)
        self._charge_to(rest, left, left)
        return over

    def _charge_to(self, category: str, amount: float, left: float) -> float:
        """Charge up to `amount` of the seconds that are `left` to a category; returns how many."""
        given = min(left, amount)
        self.by_category[category] += given
        return given


class _Running(NamedTuple):
    """A loop whose end was not reported; `end` is that of its newest step.

    `iterated`: each step begins where one ended, as in an iteration, whose end will be reported. `found`: nobody marked
    the loop, so it is over when a step of another such loop begins: a call belongs to one of them alone.
    """

    end: int
    iterated: bool
    found: bool


class RunTime:
    """Charges the process's time to categories, up to the last moment of which it is known what it was spent on.

    That moment is the earliest of: the end of the last step of each loop that runs, the beginning of a compile or phase
    under way, and the job's last report. A compile or phase in which a step has ended holds nothing back: it lies around
    that loop or beside it, and is charged as it passes with what the loop leaves. Time that no event explains is
    `initialisation` before the first step or the first executable of the user's own, whichever is earlier, and `other`
    after it. So no category ever falls, and together they are the process's age at that moment.

    Where a loop stands still, its step may never end, so time is `stalled` as it passes: whatever that step reports of it
    at its end comes too late.

    Where earlier counts were lost with an agent, only the time since then is charged: from `counts_begin` seconds after
    `began` on. Nothing says that the job still initialises then, so unexplained time is `other`.
    """

    def __init__(self, began: int, counts_begin: float | None = None) -> None:
        self._counts_begin = counts_begin
        self._spent = RunSeconds(began + round((counts_begin or 0.0) * NANOSECONDS))
        self._first_step: int | None = None
        self._first_executable: int | None = None
        self._running: dict[str, _Running] = {}
        self._heard_until: int | None = None
        self._lost = 0.0
        self.phase_seconds: dict[str, float] = {}
        """By phase, without the loops and other phases in it."""
        self._open_phases: dict[int, PhaseStarted] = {}
        """The phases under way, by when they began."""
        self._is_over = False
        self._ahead = 0.0
        """Seconds until the last `update` that are not charged yet."""
        self._charged = dict.fromkeys(OF_LOOPS, 0.0)
        """The seconds of each category that loops have reported and that need not be charged any more."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds charged so far, by category."""
        return self._spent.by_category

    def phases(self, now: int) -> dict[str, float]:
        """The phases under way, each with the seconds since it began."""
        return {phase.phase: seconds(now - at) for at, phase in self._open_phases.items()}

    def is_in_phase(self, now: int) -> bool:
        """Whether a phase is under way, in a step or outside, in which no step has ended."""
        return any(self._holds(at, now) for at in self._open_phases)

    def newest(self) -> tuple[str, bool] | None:
        """The loop whose step ended last of those that run, and whether its end will be reported; None if none runs."""
        name = max(self._running, key=lambda name: self._running[name].end, default=None)
        return None if name is None else (name, self._running[name].iterated)

    def reported(self, time: int, lost: float) -> None:
        """All events of the job up to `time` have arrived, but for a share `lost` that was dropped."""
        self._heard_until = max(time, self._heard_until or time)
        self._lost = lost

    def steps_ended(self, steps: Steps, *, found: bool) -> None:
        """Add steps; `found`: nobody marked their loop. A marked iteration runs on until its end is reported."""
        start, loop = steps.starts[0], steps.loop
        self._first_step = min(start, self._first_step or start)
        if found:
            self._running = {
                name: each for name, each in self._running.items() if not each.found or each.end > start
            }
        before = self._running.get(loop)
        earlier = steps.ends[-2] if len(steps) > 1 else None if before is None else before.end
        follows = steps.starts[-1] == earlier
        end = steps.end if before is None else max(steps.end, before.end)
        self._running[loop] = _Running(end, follows and not found, found)

    def job_ended(self) -> None:
        """No more events will come: nothing that is under way holds the charging back any longer."""
        self._running.clear()
        self._is_over = True

    def loop_entered(self, event: LoopEntered) -> None:
        """Note that the first step of a pass is under way: it holds the charging back as every later one does."""
        self._first_step = min(event.time, self._first_step or event.time)
        self._running[event.loop] = _Running(event.time, iterated=True, found=False)

    def loop_ended(self, event: LoopEnded) -> None:
        self._running.pop(event.loop, None)

    def phase_started(self, event: PhaseStarted) -> None:
        self._open_phases[event.time] = event
        if len(self._open_phases) > MAX_PHASES:  # of the oldest the end is not told
            del self._open_phases[min(self._open_phases)]

    def phase_ended(self, event: PhaseEnded) -> None:
        require(event.end >= event.start and event.nested >= 0, "a phase of negative duration")
        if event.phase in self.phase_seconds or len(self.phase_seconds) < MAX_PHASES:
            own = seconds(max(0, event.end - event.start - event.nested))
            self.phase_seconds[event.phase] = self.phase_seconds.get(event.phase, 0.0) + own
        self._open_phases.pop(event.start, None)
        if event.inside is None:
            self._spent.add(event.phase, event.start, event.end)

    def events_lost(self) -> None:
        """Forget the phases under way: their ends may be among the events that were lost."""
        self._open_phases.clear()

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        if event.outermost:
            self._spent.add("compile", event.start, event.end)
            if self._first_executable is None and event.function != EAGER:
                self._first_executable = event.start

    def update(
        self,
        now: int,
        loops: Mapping[str, Loop],
        compiling_since: int | None,
        running_since: int | None = None,
        undecided_since: int | None = None,
        *,
        stands_still: bool = False,
    ) -> None:
        """Charge what is known by now: no later than the job's last report, as later events are still on their way.

        `running_since`: start of a long device run that is still under way. The step that it is part of ends later, and
        the seconds that the step then reports as productive are charged already. `undecided_since`: start of the first
        call that may yet turn out to be a loop's; such calls hold the charging back for `MAX_GAP` at most.
        `stands_still`: a loop hangs.
        """
        observed_at = now
        if self._heard_until is not None and not self._is_over and now - self._heard_until <= MAX_GAP:
            now = min(now, self._heard_until)
        under_way = [(phase.phase, at) for at, phase in self._open_phases.items() if phase.inside is None]
        under_way += [("compile", compiling_since)] if compiling_since is not None else []
        held = [since for _, since in under_way if self._holds(since, now)]
        if stands_still:
            until, rest, running_since = now, "stalled", None
        else:
            if undecided_since is not None and running_since is None:
                held.append(max(now - MAX_GAP, undecided_since))
            until, rest = self._known_until(now, loops, held), "other"
        self._ahead = seconds(now - until)
        for word, since in under_way:  # what holds the charging back began no earlier than `until`
            self._spent.add(word, since, until)
        self._charge(until, rest, running_since, seconds_by_category(loops.values()), observed_at)

    def _charge(
        self, until: int, rest: str, running_since: int | None, known: Mapping[str, float], observed_at: int
    ) -> None:
        """Charge the time up to `until`; `known` is what loops have reported by category since they began.

        Unexplained time is `initialisation` at first, then `rest`, and from `running_since` on `productive`.
        """
        new = {word: max(0.0, amount - self._charged[word]) for word, amount in known.items()}
        begun = min(until, self._first_step or until, self._first_executable or until)
        unexplained = "initialisation" if self._counts_begin is None else "other"
        self._spent.charge(begun, {}, unexplained)
        if running_since is not None:
            new = self._spent.charge(min(until, running_since), new, rest)
            rest = "productive"
        over = self._spent.charge(until, new, rest)
        # What is left over lies after `until`, or was charged already or spent on another thread, and then is dropped.
        left_over, ahead = sum(over.values()), seconds(observed_at - until)
        kept = min(1.0, ahead / left_over) if left_over > 0 else 0.0
        self._charged = {
            word: max(self._charged[word], amount - over[word] * kept) for word, amount in known.items()
        }

    def goodput(self, turned_away: str | None = None) -> Figure[float]:
        """The productive share of the time charged; absent where too little is known of what was productive.

        `turned_away`: a function that may be a loop, of which no steps are known.
        """
        total = sum(self.seconds.values())
        steps = sum(self.seconds[word] for word in OF_LOOPS if word != "compile")
        under_way = UNDER_WAY.format(duration(self._ahead))
        if self._lost > MAX_LOST:
            return Figure(None, DROPPED.format(percent(self._lost)))
        if steps < ENOUGH_SECONDS:
            if self._first_step is None:
                return Figure(None, NOT_MARKED)
            if steps + self._ahead < ENOUGH_SECONDS and total + self._ahead < seconds(MAX_GAP):
                return Figure(None, TOO_SHORT)
            if self._ahead > 0:
                return Figure(None, under_way)
        since = None if self._counts_begin is None else AGENT_LOST.format(duration(self._counts_begin))
        since = since or (turned_away and TURNED_AWAY.format(turned_away))
        since = since or (under_way if self._ahead > HELD_BACK * total else None)
        return Figure(self.seconds["productive"] / total, since)

    def _holds(self, since: int, now: int) -> bool:
        """Whether a compile or phase under way since then holds the charging back."""
        is_beside_steps = any(running.end > since for running in self._running.values())
        return not is_beside_steps and not self._is_over and now - since <= MAX_COMPILE

    def _known_until(self, now: int, loops: Mapping[str, Loop], held: list[int]) -> int:
        """The earliest of `now`, these starts of what is under way, and the last end in each running loop."""
        pending = (loop.stretches.pending_since for loop in loops.values())
        held = [*held, *(since for since in pending if since is not None)]
        for name, running in self._running.items():
            patience = _patience(running, loops[name])
            phases = (at for at, phase in self._open_phases.items() if phase.inside == name)
            if now - running.end <= patience or any(now - at <= MAX_COMPILE for at in phases):
                held.append(running.end)
        return min([now, *held])


def _patience(running: _Running, loop: Loop) -> float:
    """Nanoseconds for which the end of a loop's last step holds the charging back.

    The end of an iteration is reported, so it is waited for as long as one of its steps may take, in which the host waits
    for all that is in flight. Another loop never says that it is over: it is waited for as long as some of its steps take
    on average. Of a first step nothing is known.
    """
    if not loop.steps:
        return MAX_COMPILE
    steps = IN_FLIGHT if running.iterated else STEPS_WAITED_FOR
    return max(MAX_GAP, steps * loop.usual_turn * NANOSECONDS)
