"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.loop_time import OF_LOOPS, LoopTime, seconds_by_category
from jaxobs.derive.loops.wall_time.run_seconds import RunSeconds
from jaxobs.derive.loops.wall_time.stalls import FACTOR
from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import CompilePhaseEnded, LoopEnded, PhaseEnded, PhaseStarted, StepEnded
from jaxobs.model.figure import Figure, figure
from jaxobs.report.units import percent
from jaxobs.vocabulary.labels import EAGER

PAUSE = 60 * NANOSECONDS
"""A loop that has ended no step for this long holds the charging back no longer, nor does a job that reports nothing. It
is the longest pause between two steps that still counts as the loop's own time (`LONGEST_GAP` of the probe's loops)."""

LONGEST_COMPILE = 3600 * NANOSECONDS
"""A compile or phase under way holds the charging back no longer: its end may have been dropped."""

TELLING = 2.0
"""Seconds of steps, or of a run outside any, from which on they are the job's work: as long as a run is that is reported
while it lasts (`LONG_RUN` of the probe)."""

NOT_MARKED = "no step was marked and no loop found, so nothing says what was productive: mark the loop with obs.steps()"


IN_ADVANCE = ("productive", "stalled")
"""Categories that a long run or a long step is charged to while it lasts: its step tells of those seconds at its end."""

MOST_LOST = 0.01
"""Share of the events: what is dropped is mostly steps, whose time then seems to be spent outside them."""

TOO_SHORT = "less than two seconds of steps were seen, in less than a minute"


class _Running(NamedTuple):
    """A loop that has not said it is over. `iterated`: its end will be reported, as each step begins where one ended.

    `found`: nobody marked it, so that it is over when a step of another one begins: a call belongs to one of them alone.
    """

    end: int
    iterated: bool
    found: bool


class RunTime:
    """Time is charged up to the last moment of which it is known what it was spent on.

    That is the end of the last step of each loop that runs, the beginning of a compile or phase under way, else the job's
    last report.
    What no event explains is `initialisation` before the first step or the first executable of the user's own, whichever
    is earlier, and `other` after it. So no category ever falls, and together they are the age at that moment.

    `stalled` is what steps took beyond their usual time for no reason that was seen, `other` has what they took while
    something was seen to go on (`Stalls`). While a long step is under way both grow already, if the loop is an iteration,
    whose end would have been reported: all but the last seconds, which a usual step takes. What the step then says of
    that time comes too late.
    """

    def __init__(self, series: Series, began: int, signs: SignsOfLife) -> None:
        self._series = series
        self._signs = signs
        self._spent = RunSeconds(series, began)
        self._first_step: int | None = None
        self._first_executable: int | None = None
        self._running: dict[str, _Running] = {}
        self._heard_until: int | None = None
        self._lost = 0.0
        self._open_phases: dict[int, str | None] = {}
        """By when they began, the loops that they are inside of."""
        self._charged = dict.fromkeys(OF_LOOPS, 0.0)
        """Of what loops have spent on each category, the seconds that need not be charged any more."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Charged so far, by category."""
        return self._spent.by_category

    def reported(self, time: int, lost: float) -> None:
        """All that happened in the job up to `time` has arrived, but for the share `lost` of the events."""
        self._heard_until = max(time, self._heard_until or time)
        self._lost = lost

    def step_ended(self, event: StepEnded, *, found: bool = False) -> None:
        """`found`: nobody marked the loop. A marked one that is an iteration goes on until its end is reported."""
        before = self._running.get(event.loop)
        follows = before is not None and event.start == before.end
        self._goes_on(event.loop, event.start, _Running(event.end, follows and not found, found))

    def steps_ended(self, steps: PlainSteps, *, found: bool = False) -> None:
        """Add many steps at once, none of which lies far from the next."""
        follows = steps.starts[-1] == steps.ends[-2]
        self._goes_on(steps.loop, steps.starts[0], _Running(steps.ends[-1], follows and not found, found))

    def _goes_on(self, loop: str, start: int, running: _Running) -> None:
        """The loop has ended steps, the first of which began at `start`."""
        if self._first_step is None:
            self._first_step = start
        if running.found:
            self._running = {
                name: each for name, each in self._running.items() if not each.found or each.end > start
            }
        before = self._running.get(loop)
        end = running.end if before is None else max(running.end, before.end)
        self._running[loop] = running._replace(end=end)
        self._signs.seen(running.end)

    def job_ended(self) -> None:
        """Nothing more will be told: no loop, phase or compile under way holds the charging back any longer."""
        self._running.clear()
        self._open_phases.clear()

    def loop_ended(self, event: LoopEnded) -> None:
        self._running.pop(event.loop, None)
        self._signs.seen(event.time)

    def phase_started(self, event: PhaseStarted) -> None:
        self._open_phases[event.time] = event.inside

    def phase_ended(self, event: PhaseEnded) -> None:
        require(event.end >= event.start and event.nested >= 0, "a phase of negative duration")
        self._open_phases.pop(event.start, None)
        self._signs.seen(event.end)
        if event.inside is None:
            self._spent.phase_ended(event.phase, event.start, event.end)

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        self._signs.seen(event.end)
        if event.outermost:
            self._spent.compiled(event.start, event.end)
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
        observed_at, now = now, self._reported_until(now)
        if compiling_since is not None and now - compiling_since > LONGEST_COMPILE:
            compiling_since = None
        self._open_phases = {
            at: loop for at, loop in self._open_phases.items() if now - at <= LONGEST_COMPILE
        }
        usual = None
        if compiling_since is None and not self._open_phases:
            usual = self._usual_of_the_stalled(now, loops)
        if usual is not None:
            until, rest, running_since = now - usual, "stalled", None
        else:
            if undecided_since is not None and running_since is None:
                now = max(now - PAUSE, min(now, undecided_since))
            until, rest = self._known_until(now, loops, compiling_since), "other"
            if running_since is not None and _hangs(now - running_since, loops):
                running_since = None
        self._charge(until, rest, running_since, seconds_by_category(loops), observed_at)
        self._series.set(process_metrics.GOODPUT, (), self.goodput().value)

    def _charge(
        self, until: int, rest: str, running_since: int | None, known: Mapping[str, float], observed_at: int
    ) -> None:
        """Charge the time up to `until`, of which loops have told the seconds `known` since they began.

        What nothing explains is `initialisation` at first, then `rest`, and from `running_since` on `productive`.
        """
        if rest != "stalled":
            # The step has ended, or something else has: what it says of its time comes too late.
            self._charged["stalled"] = min(self._charged["stalled"], known["stalled"])
        before, spent = self._charged, dict(self.seconds)
        new = {word: max(0.0, amount - before[word]) for word, amount in known.items()}
        begun = min(
            (at for at in (self._first_step, self._first_executable) if at is not None), default=until
        )
        self._spent.charge(min(until, begun), {}, "initialisation")
        if running_since is not None:
            new = self._spent.charge(min(until, running_since), new, rest)
            rest = "productive"
        over = self._spent.charge(until, new, rest)
        # What is left over lies after `until`, or ran beside what was charged, on another thread: that is dropped.
        left_over, ahead = sum(over.values()), seconds(observed_at - until)
        kept = min(1.0, ahead / left_over) if left_over > 0 else 0.0
        self._charged = {word: amount - over[word] * kept for word, amount in known.items()}
        for word in IN_ADVANCE:
            self._charged[word] = max(self._charged[word], before[word] + self.seconds[word] - spent[word])

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

    def _known_until(self, now: int, loops: Mapping[str, LoopTime], compiling_since: int | None) -> int:
        """The earliest of: the last step of a loop that runs, or sign of life in a long one, what is under way, now."""
        held = [start for start, loop in self._open_phases.items() if loop is None]
        held += [compiling_since] if compiling_since is not None else []
        for name, running in self._running.items():
            patience = _patience(running, loops.get(name))
            if name in self._open_phases.values() or now - running.end <= patience:
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
