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
from jaxobs.model.events import (
    LONGEST_GAP,
    CompilePhaseEnded,
    LoopEnded,
    LoopEntered,
    PhaseEnded,
    PhaseStarted,
    StepEnded,
)
from jaxobs.model.figure import Figure
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import duration, percent

STEPS_WAITED_FOR = 3
"""Usual steps after which a loop that ends no step, and that is no iteration, is taken to be over: steps may take
minutes, and their time is known at their end."""

LONGEST_COMPILE = 3600 * NANOSECONDS
"""Longest time for which a compile or phase under way holds the charging back: its end may have been dropped."""

ENOUGH_SECONDS = 2.0
"""Least seconds of steps, or of a run outside steps, that count as the job's work: as long as a run must last to be
reported while it lasts (`LONG_RUN` of the probe)."""

NOT_MARKED = "no step was marked and no loop found, so nothing says what was productive: mark the loop with obs.steps()"


IN_ADVANCE = ("productive", "stalled")
"""Categories to which a long run or step is charged while it lasts: its step reports those seconds again at its end."""

MOST_LOST = 0.01
"""Share of dropped events above which there is no goodput: most are steps, whose time then seems to lie elsewhere."""

TOO_SHORT = "less than two seconds of steps were seen, in less than a minute"


AGENT_LOST = "of the time since {} after the start: the agent was lost, and with it what it had counted"


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
    under way, and the job's last report. Time that no event explains is `initialisation` before the first step or the
    first executable of the user's own, whichever is earlier, and `other` after it. So no category ever falls, and
    together they are the process's age at that moment.

    `stalled` is what steps took beyond their usual time for no reason that was seen; what they took beyond it while
    something was seen to happen is `other` (`Stalls`). Both grow while a long step is under way, if the loop is an
    iteration, whose end would have been reported: by all of the step but its last seconds, as many as a usual step
    takes. Whatever that step reports of this time at its end comes too late.

    Where earlier counts were lost with an agent, only the time since then is charged: from `counts_begin` seconds after
    `began` on. Nothing says that the job still initialises then, so unexplained time is `other`.
    """

    def __init__(
        self, series: Series, began: int, signs: SignsOfLife, counts_begin: float | None = None
    ) -> None:
        self._series = series
        self._signs = signs
        self._counts_begin = counts_begin
        self._spent = RunSeconds(series, began + round((counts_begin or 0.0) * NANOSECONDS))
        self._first_step: int | None = None
        self._first_executable: int | None = None
        self._running: dict[str, _Running] = {}
        self._heard_until: int | None = None
        self._lost = 0.0
        self._open_phases: dict[int, str | None] = {}
        """The loop that each open phase is inside of, None outside steps; by when the phase began."""
        self._charged = dict.fromkeys(OF_LOOPS, 0.0)
        """The seconds of each category that loops have reported and that need not be charged any more."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds charged so far, by category."""
        return self._spent.by_category

    def reported(self, time: int, lost: float) -> None:
        """All events of the job up to `time` have arrived, but for a share `lost` that was dropped."""
        self._heard_until = max(time, self._heard_until or time)
        self._lost = lost

    def step_ended(self, event: StepEnded, *, found: bool = False) -> None:
        """Add a step; `found`: nobody marked its loop. A marked iteration runs on until its end is reported."""
        before = self._running.get(event.loop)
        follows = before is not None and event.start == before.end
        self._note_running(event.loop, event.start, _Running(event.end, follows and not found, found))

    def steps_ended(self, steps: PlainSteps, *, found: bool = False) -> None:
        """Add many steps of one loop at once, none of which lies far from the next."""
        follows = steps.starts[-1] == steps.ends[-2]
        self._note_running(
            steps.loop, steps.starts[0], _Running(steps.ends[-1], follows and not found, found)
        )

    def _note_running(self, loop: str, start: int, running: _Running) -> None:
        """Note that the loop has ended steps, the first of which began at `start`."""
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
        """No more events will come: no loop or phase under way holds the charging back any longer."""
        self._running.clear()
        self._open_phases.clear()

    def loop_entered(self, event: LoopEntered) -> None:
        """Note that the first step of a pass is under way: it holds the charging back as every later one does."""
        self._running[event.loop] = _Running(event.time, iterated=True, found=False)
        self._signs.seen(event.time)

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

    def events_lost(self) -> None:
        """Forget the phases under way: their ends may be among the events that were lost."""
        self._open_phases.clear()

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
        """Charge what is known by now: no later than the job's last report, as later events are still on their way.

        `running_since`: start of a long device run that is still under way. The step that it is part of ends later, and
        the seconds that the step then reports as productive are charged already. `undecided_since`: start of the first
        call that may yet turn out to be a loop's; such calls hold the charging back for `LONGEST_GAP` at most.
        """
        observed_at, now = now, self._reported_until(now)
        if compiling_since is not None and now - compiling_since > LONGEST_COMPILE:
            compiling_since = None
        self._open_phases = {
            at: loop for at, loop in self._open_phases.items() if now - at <= LONGEST_COMPILE
        }
        usual = None
        if compiling_since is None and not self._open_phases:
            usual = self._usual_step_if_stalled(now, loops)
        if usual is not None:
            until, rest, running_since = now - usual, "stalled", None
        else:
            if undecided_since is not None and running_since is None:
                now = max(now - LONGEST_GAP, min(now, undecided_since))
            until, rest = self._known_until(now, loops, compiling_since), "other"
            if running_since is not None and _hangs(now - running_since, loops):
                running_since = None
        self._charge(until, rest, running_since, seconds_by_category(loops), observed_at)
        self._series.set(process_metrics.GOODPUT, (), self.goodput().value)

    def _charge(
        self, until: int, rest: str, running_since: int | None, known: Mapping[str, float], observed_at: int
    ) -> None:
        """Charge the time up to `until`; `known` is what loops have reported by category since they began.

        Unexplained time is `initialisation` at first, then `rest`, and from `running_since` on `productive`.
        """
        if rest != "stalled":
            # The stall is over. What was charged in advance stays so, and is not set against later stalls.
            self._charged["stalled"] = min(self._charged["stalled"], known["stalled"])
        before, spent = self._charged, dict(self.seconds)
        new = {word: max(0.0, amount - before[word]) for word, amount in known.items()}
        begun = min(
            (at for at in (self._first_step, self._first_executable) if at is not None), default=until
        )
        unexplained = "initialisation" if self._counts_begin is None else "other"
        self._spent.charge(min(until, begun), {}, unexplained)
        if running_since is not None:
            new = self._spent.charge(min(until, running_since), new, rest)
            rest = "productive"
        over = self._spent.charge(until, new, rest)
        # What is left over lies after `until`, or was spent on another thread at the same time, and then is dropped.
        left_over, ahead = sum(over.values()), seconds(observed_at - until)
        kept = min(1.0, ahead / left_over) if left_over > 0 else 0.0
        self._charged = {word: amount - over[word] * kept for word, amount in known.items()}
        for word in IN_ADVANCE:
            self._charged[word] = max(self._charged[word], before[word] + self.seconds[word] - spent[word])

    def _reported_until(self, now: int) -> int:
        if self._heard_until is not None and now - self._heard_until <= LONGEST_GAP:
            return min(now, self._heard_until)
        return now

    def goodput(self) -> Figure[float]:
        """The productive share of the time charged; absent where too little is known of what was productive."""
        total = sum(self.seconds.values())
        long = self._first_step is not None and total >= seconds(LONGEST_GAP)
        steps = sum(self.seconds[word] for word in ("productive", "input", "checkpoint", "stalled"))
        known = (long or steps >= ENOUGH_SECONDS) and self._lost <= MOST_LOST and total > 0
        if not known:
            return Figure(None, self._why_no_goodput())
        since = None if self._counts_begin is None else AGENT_LOST.format(duration(self._counts_begin))
        return Figure(self.seconds["productive"] / total, since)

    def _why_no_goodput(self) -> str:
        if self._lost > MOST_LOST:
            return f"{percent(self._lost)} of the events were dropped, and with them what the time went into"
        return NOT_MARKED if self._first_step is None else TOO_SHORT

    def _known_until(self, now: int, loops: Mapping[str, LoopTime], compiling_since: int | None) -> int:
        """The earliest of `now`, the start of what is under way, and each running loop's last step or sign of life."""
        held = [start for start, loop in self._open_phases.items() if loop is None]
        held += [compiling_since] if compiling_since is not None else []
        for name, running in self._running.items():
            patience = _patience(running, loops.get(name))
            if name in self._open_phases.values() or now - running.end <= patience:
                held.append(running.end)
            elif running.iterated and now - self._signs.last <= patience:
                held.append(self._signs.last)  # a long step was alive until then; what follows may be a stall
        return min([now, *held])

    def _usual_step_if_stalled(self, now: int, loops: Mapping[str, LoopTime]) -> int | None:
        """Nanoseconds of a usual step of the iterations that have stalled; None where none has.

        They have where nothing has happened in the job for longer than any of their steps may take.
        """
        known = [
            loops[name].stalls
            for name, running in self._running.items()
            if running.iterated and name in loops and loops[name].stalls.limit is not None
        ]
        if not known or seconds(now - self._signs.last) <= max(stalls.limit or 0.0 for stalls in known):
            return None
        return round(max(stalls.usual for stalls in known) * NANOSECONDS)


def _hangs(lasted: int, loops: Mapping[str, LoopTime]) -> bool:
    """Whether a run has `lasted` longer than any loop's steps may, as a collective does that waits for a hung rank."""
    limits = [loop.stalls.limit for loop in loops.values() if loop.stalls.limit is not None]
    return bool(limits) and seconds(lasted) > max(limits)


def _patience(running: _Running, loop: LoopTime | None) -> float:
    """Nanoseconds for which the end of a loop's last step holds the charging back.

    The end of an iteration is reported, so it is waited for as long as one of its steps may take. Another loop never
    says that it is over: it is waited for as long as some of its steps usually take.
    """
    if loop is None:
        return LONGEST_GAP
    if running.iterated and loop.stalls.limit is not None:
        return loop.stalls.limit * NANOSECONDS
    steps = FACTOR if running.iterated else STEPS_WAITED_FOR
    return max(LONGEST_GAP, steps * loop.stalls.usual * NANOSECONDS)
