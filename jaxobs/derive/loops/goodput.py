"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.loop_time import OF_LOOPS, LoopTime, seconds_by_category
from jaxobs.derive.loops.wall_time.stalls import FACTOR
from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.derive.steps.intervals import Intervals
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import CompilePhaseEnded, LoopEnded, PhaseEnded, PhaseStarted, StepEnded
from jaxobs.model.figure import Figure, figure
from jaxobs.report.units import percent
from jaxobs.vocabulary.labels import EAGER
from jaxobs.vocabulary.wall_time import CATEGORIES

PAUSE = 60 * NANOSECONDS
"""A loop that has ended no step for this long holds the charging back no longer, nor does a job that reports nothing. It
is the longest pause between two steps that still counts as the loop's own time (`LONGEST_GAP` of the probe's loops)."""

LONGEST_COMPILE = 3600 * NANOSECONDS
"""A compile or phase under way holds the charging back no longer: its end may have been dropped."""

TELLING = 2.0
"""Seconds of steps, or of a run outside any, from which on they are the job's work: as long as a run is that is reported
while it lasts (`LONG_RUN` of the probe)."""

NOT_MARKED = "no step was marked and no loop found, so nothing says what was productive: mark the loop with obs.steps()"


MOST_LOST = 0.01
"""Share of the events: what is dropped is mostly steps, whose time then seems to be spent outside them."""

TOO_SHORT = "less than two seconds of steps were seen, in less than a minute"


class _Running(NamedTuple):
    """A loop that has not said it is over. `iterated`: its end will be reported, as each step begins where one ended."""

    end: int
    iterated: bool


class RunTime:
    """Time is charged up to the last moment of which it is known what it was spent on.

    That is the end of the last step of each loop that runs, the beginning of a compile or phase under way, else the job's
    last report.
    What no event explains is `initialisation` before the first step or the first executable of the user's own, whichever
    is earlier, and `other` after it. So no category ever falls, and together they are the age at that moment. Where the
    beginning of a phase was lost, what was charged to `other` meanwhile is made good with time that is unexplained later.

    `stalled` is what steps took beyond their usual time for no reason that was seen, `other` has what they took while
    something was seen to go on (`Stalls`). While a long step is under way both grow already, if the loop is an iteration,
    whose end would have been reported: all but the last seconds, which a usual step takes. What the step then says of
    that time comes too late.
    """

    def __init__(self, series: Series, began: int, signs: SignsOfLife) -> None:
        self._series = series
        self._signs = signs
        self._charged_until = began
        self._first_step: int | None = None
        self._first_executable: int | None = None
        self._running: dict[str, _Running] = {}
        self._heard_until: int | None = None
        self._lost = 0.0
        self._compiling = Intervals()
        self._open_phases: dict[int, str | None] = {}
        self._unexplained = 0.0
        self._late = {"checkpoint": 0.0, "initialisation": 0.0}
        self._phases = {"checkpoint": Intervals(), "initialisation": Intervals()}
        self._charged = dict.fromkeys(OF_LOOPS, 0.0)
        """Of what loops have spent on each category, the seconds that need not be charged any more."""
        self.seconds = dict.fromkeys(CATEGORIES, 0.0)
        for category in CATEGORIES:
            series.add(process_metrics.RUN_SECONDS, (category,), 0.0)

    def reported(self, time: int, lost: float) -> None:
        """All that happened in the job up to `time` has arrived, but for the share `lost` of the events."""
        self._heard_until = max(time, self._heard_until or time)
        self._lost = lost

    def step_ended(self, event: StepEnded, *, its_end_is_reported: bool = True) -> None:
        """`its_end_is_reported`: where the loop is an iteration its end will be reported, and until then it goes on."""
        if self._first_step is None:
            self._first_step = event.start
        before = self._running.get(event.loop)
        end = event.end if before is None else max(event.end, before.end)
        self._running[event.loop] = _Running(
            end, its_end_is_reported and before is not None and event.start == before.end
        )
        self._signs.seen(event.end)

    def steps_ended(self, steps: PlainSteps, *, its_end_is_reported: bool = True) -> None:
        """The same of many, none of which lies far from the next."""
        if self._first_step is None:
            self._first_step = steps.starts[0]
        before = self._running.get(steps.loop)
        end = steps.ends[-1] if before is None else max(steps.ends[-1], before.end)
        self._running[steps.loop] = _Running(end, its_end_is_reported and steps.starts[-1] == steps.ends[-2])
        self._signs.seen(steps.ends[-1])

    def loop_ended(self, event: LoopEnded) -> None:
        self._running.pop(event.loop, None)
        self._signs.seen(event.time)

    def phase_started(self, event: PhaseStarted) -> None:
        self._open_phases[event.time] = event.inside

    def phase_ended(self, event: PhaseEnded) -> None:
        require(event.end >= event.start and event.nested >= 0, "a phase of negative duration")
        self._open_phases.pop(event.start, None)
        self._signs.seen(event.end)
        if event.inside is None and event.phase in self._phases:
            # Where in the phase its loops lay is not known; they are charged first, and it gets what is left.
            self._phases[event.phase].add(event.start, event.end)

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        self._signs.seen(event.end)
        if event.outermost:
            self._compiling.add(event.start, event.end)
            if self._first_executable is None and event.function != EAGER:
                self._first_executable = event.start

    def update(
        self,
        now: int,
        loops: Mapping[str, LoopTime],
        compiling_since: int | None,
        running_since: int | None = None,
        undecided_since: int | None = None,
    ) -> None:
        """Charge what is known by now: no later than the job's last report, as what came after it is still on its way.

        `running_since`: when a run of the device began that lasts for long, and still does. The step that it is part of
        ends after it, and what it reports as productive is then charged already. `undecided_since`: when the first of the
        calls began of which it is not known yet whether they are a loop's; they hold the charging back for `PAUSE`.
        """
        told_at, now = now, self._reported_until(now)
        if compiling_since is not None and now - compiling_since > LONGEST_COMPILE:
            compiling_since = None
        phases = {at: inside for at, inside in self._open_phases.items() if now - at <= LONGEST_COMPILE}
        self._open_phases = phases
        under_way = compiling_since is not None or phases
        usual = None if under_way else self._usual_of_the_stalled(now, loops)
        if undecided_since is not None and running_since is None:
            now = max(now - PAUSE, min(now, undecided_since))
        until = self._known_until(now, loops, compiling_since, phases) if usual is None else now - usual
        self._note_late_phases()
        known = seconds_by_category(loops)
        if usual is None:
            # The step has ended, or something else has: what it says of its time comes too late.
            self._charged["stalled"] = min(self._charged["stalled"], known["stalled"])
        new = {word: max(0.0, amount - self._charged[word]) for word, amount in known.items()}
        before = self._charged
        stalled = self.seconds["stalled"]
        begun = min((at for at in (self._first_step, self._first_executable) if at is not None), default=None)
        if begun is None or self._charged_until < begun:
            self._charge_up_to(until if begun is None else min(until, begun), {}, "initialisation")
        early = 0.0
        if running_since is not None and _hangs(now - running_since, loops):
            running_since = None
        if begun is not None and usual is None and running_since is not None:
            new = self._charge_up_to(min(until, running_since), new, "other")
            productive = self.seconds["productive"]
            new = self._charge_up_to(until, new, "productive")
            early = max(0.0, self.seconds["productive"] - productive)
        elif begun is not None:
            new = self._charge_up_to(until, new, "other" if usual is None else "stalled")
        # What is left over lies after `until`, or ran beside what was charged, on another thread: that is dropped.
        left_over, ahead = sum(new.values()), seconds(told_at - until)
        kept = min(1.0, ahead / left_over) if left_over > 0 else 0.0
        self._charged = {word: amount - new[word] * kept for word, amount in known.items()}
        if usual is not None:  # the step will report them when it ends
            self._charged["stalled"] = max(
                self._charged["stalled"], before["stalled"] + self.seconds["stalled"] - stalled
            )
        self._charged["productive"] = max(self._charged["productive"], before["productive"] + early)
        self._series.set(process_metrics.GOODPUT, (), self.goodput().value)

    def _reported_until(self, now: int) -> int:
        if self._heard_until is not None and now - self._heard_until <= PAUSE:
            return min(now, self._heard_until)
        return now

    def goodput(self) -> Figure[float]:
        """The productive share of the process's age; absent where too little says what was productive."""
        total = sum(self.seconds.values())
        long = self._first_step is not None and total >= seconds(PAUSE)
        steps = sum(self.seconds[word] for word in ("productive", "input", "checkpoint", "stalled"))
        known = (long or steps >= TELLING) and self._lost <= MOST_LOST and total > 0
        return figure(self.seconds["productive"] / total if known else None, self._why_no_goodput())

    def _why_no_goodput(self) -> str:
        if self._lost > MOST_LOST:
            return f"{percent(self._lost)} of the events were dropped, and with them what the time went into"
        return NOT_MARKED if self._first_step is None else TOO_SHORT

    def _known_until(
        self,
        now: int,
        loops: Mapping[str, LoopTime],
        compiling_since: int | None,
        phases: Mapping[int, str | None],
    ) -> int:
        """The earliest of: the last step of a loop that runs, or sign of life in a long one, what is under way, now."""
        held = [start for start, inside in phases.items() if inside is None]
        held += [compiling_since] if compiling_since is not None else []
        for name, running in self._running.items():
            patience = _patience(running, loops.get(name))
            if name in phases.values() or now - running.end <= patience:
                held.append(running.end)
            elif running.iterated and now - self._signs.last <= patience:
                held.append(self._signs.last)  # something goes on in a long step; what follows may be a stall
        return min([now, *held])

    def _usual_of_the_stalled(self, now: int, loops: Mapping[str, LoopTime]) -> int | None:
        """Nanoseconds of a usual step, where an iteration has ended none for too long, and nothing else has either."""
        judged = [
            loops[name].stalls
            for name, running in self._running.items()
            if running.iterated and name in loops and loops[name].stalls.limit is not None
        ]
        if not judged or seconds(now - self._signs.last) <= max(stalls.limit or 0.0 for stalls in judged):
            return None
        return round(max(stalls.usual for stalls in judged) * NANOSECONDS)

    def _charge_up_to(self, until: int, inside: Mapping[str, float], rest: str) -> dict[str, float]:
        """Charge the time up to `until`: what loops report first, then compiles and phases outside them, then the rest.

        Returns what of `inside` found no time.
        """
        left = seconds(max(0, until - self._charged_until))
        if left <= 0:
            return dict(inside)
        self._charged_until = until
        over = {}
        for word, amount in inside.items():
            over[word] = amount - min(left, amount)
            self._charge(word, min(left, amount))
            left -= min(left, amount)
        for word, intervals in (("compile", self._compiling), *self._phases.items()):
            amount = min(left, seconds(intervals.take(until)))
            self._charge(word, amount)
            left -= amount
        for word, owed in self._late.items():
            amount = min(left, owed)
            self._charge(word, amount)
            self._late[word] -= amount
            left -= amount
        self._unexplained += left
        self._charge(rest, left)
        return over

    def _note_late_phases(self) -> None:
        """What of a phase lies in time that is charged already; no more than was charged without a reason."""
        for word, intervals in self._phases.items():
            amount = min(seconds(intervals.take(self._charged_until)), self._unexplained)
            self._unexplained -= amount
            self._late[word] += amount

    def _charge(self, category: str, amount: float) -> None:
        self.seconds[category] += amount
        self._series.add(process_metrics.RUN_SECONDS, (category,), amount)


def _hangs(lasted: int, loops: Mapping[str, LoopTime]) -> bool:
    """Whether a run of so many nanoseconds takes longer than any loop's steps may: a collective that waits for a rank."""
    limits = [loop.stalls.limit for loop in loops.values() if loop.stalls.limit is not None]
    return bool(limits) and seconds(lasted) > max(limits)


def _patience(running: _Running, loop: LoopTime | None) -> float:
    """Nanoseconds for which the end of a loop's last step holds the charging back.

    An iteration says that it is over, so there is time for a step of the length that its steps have.
    """
    if not running.iterated or loop is None:
        return PAUSE
    limit = loop.stalls.limit
    return max(PAUSE, FACTOR * loop.stalls.usual * NANOSECONDS) if limit is None else limit * NANOSECONDS
