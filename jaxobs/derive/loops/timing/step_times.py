"""How long a loop's steps take.

Where the host waits for the device in each step, the step time is the host's turn, known of every single step. Where
the host runs ahead, it is the spacing of completions on the device, averaged over the steps between two that were seen.
Where no completions are seen, it is the host's turns, averaged over a second at least. If that is because no output can
be polled, turns that may only have filled the device's queue are left out of the average.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from jaxobs.derive.loops.timing.host_turns import HOST_TURNS, Block, HostTurns
from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT
from jaxobs.derive.loops.timing.synchrony import Synchrony
from jaxobs.derive.loops.timing.turns import TurnLog, Turns
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import NANOSECONDS, each_in_seconds, seconds
from jaxobs.model.events import StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar

COMPLETIONS_MISSING = 10 * NANOSECONDS
"""Nanoseconds without two completions after which the host's turns are shown for a watched loop: no output of it can be
polled, or it ends and begins again before a second completion. The limit is at least three times the time between the
last two completions, as steps may take minutes."""

STEPS_FOR_A_SPACING = 8
"""Fewest steps in a spacing that is reported by `spaced`: over this many the polls' uncertainty at both ends, at most a
tenth of a step, is about a hundredth."""

COMPLETIONS_WAITING = 8
"""Completions kept that came before the end of their step was known; the oldest are dropped first."""


MOST_LEFT_OUT = 0.02
"""Share of the time between two completions that may be left out of their spacing. It is not known whether the device
worked on in that time (between epochs, or at a checkpoint that waits for it); if it did, the spacing is too short."""


class StepTimes:
    """The step times of one loop: absent until they are known from completions, or from a second of the host's turns.

    `spaced` is called with the runs of a step and the seconds from one completion to the next, where consecutive steps
    each ran these and nothing else.
    """

    def __init__(self, name: str, series: Series, spaced: Callable[[tuple[int, ...], float], None]) -> None:
        self._labels = (name,)
        self._series = series
        self._spaced = spaced
        self._turns = TurnLog()
        self._last_end: int | None = None
        self._first_run: int | None = None
        self.completions_seen = False  # whether the device was ever seen to finish a step
        self._completed: StepCompleted | None = None
        self._synchrony = Synchrony()
        self._waiting: deque[StepCompleted] = deque(maxlen=COMPLETIONS_WAITING)
        self._last_spacing: tuple[int, float] | None = None
        self._spacings: deque[tuple[int, float]] = deque(maxlen=60)
        self._expected_until: int | None = None
        self._host: deque[float] = deque(maxlen=1000)
        self._host_turns, self._behind_full_queue = HostTurns(), HostTurns()
        self._begun = 0
        """The newest step around which the host was outside the loop: the device's queue may have emptied there."""
        self._unseen = False
        """Whether no output of the steps can be polled."""
        self._newest: deque[float] = deque(maxlen=30)
        """The newest turns, each without its compiles, s."""
        self._interrupted = False
        """Whether any turn had an inner loop or a phase in it, during which the device may have worked on."""

    @property
    def host_seems_to_wait(self) -> bool:
        """Whether each completion so far, one at least, came within its own step."""
        return self._synchrony.host_seems_to_wait

    @property
    def watched(self) -> bool:
        """Whether any step has called a watched function."""
        return self._first_run is not None

    def step_ended(self, event: StepEnded, turn: int, compiling: int = 0) -> None:
        """`turn`: nanoseconds of the host's turn without what is nested in it, `compiling` of them in compiles."""
        turns = Turns.of_step(event, turn, self._last_end)
        self._add_turns(turns, event.end, runs=bool(event.runs), compiling=compiling)

    def steps_ended(self, steps: PlainSteps) -> None:
        """Add many steps at once."""
        turns = Turns.of_steps(steps, self._last_end)
        self._add_turns(turns, steps.ends[-1], runs=bool(steps.runs))

    def _add_turns(self, turns: Turns, end: int, *, runs: bool, compiling: int = 0) -> None:
        if runs and self._first_run is None:
            self._first_run = end
            self._expected_until = end + COMPLETIONS_MISSING
        if not self.watched:
            self._turns.forget_all()  # no completion will need them; the newest turn is kept for exemplars
        self._turns.append(turns)
        self._interrupted |= turns.excluded > 0
        self._last_end = end
        durations = each_in_seconds(turns.durations)
        self._host.extend(durations)
        self._newest.extend(durations if not compiling else (sum(durations) - seconds(compiling),))
        self._series.observe_all(loop_metrics.STEP_HOST_SECONDS, self._labels, durations)
        if turns.pauses or turns.excluded:
            self._begun = turns.last
        self._observe_host_turns(sum(turns.durations) - compiling, turns, end)
        while self._waiting and self._waiting[0].step <= turns.last:
            self._add_spacing(self._waiting.popleft())

    def completed(self, event: StepCompleted) -> None:
        """The device is done with a step; this waits until all of the host's turns up to that step are known."""
        self.completions_seen = True
        if self._turns.last is not None and self._turns.last >= event.step:
            self._add_spacing(event)
        else:
            self._waiting.append(event)

    def unseen(self) -> None:
        """No output of a step can be polled: unless there are completions of another call, none are expected."""
        self._synchrony.host_was_ahead()
        if not self._spacings:
            self._unseen, self._expected_until = True, None

    def device_went_on(self, after: float) -> None:
        """Add `after` seconds in which the device worked on after the host had left the loop: they are step time, too.

        Where no two completions have been seen before the loop was left, none are expected: it is over too soon.
        """
        self._host_turns.device_went_on(round(after * NANOSECONDS))
        if after > 0 and not self._spacings:
            self._expected_until = self._last_end

    def doubt(self) -> None:
        """Forget the host's turns: for how long the device worked on after some of them is not known."""
        self._host_turns = HostTurns()

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """Attach the exemplar of a step's span to the histogram buckets that hold the step's times."""
        turn = self._turns.duration(step)
        if turn is not None:
            at = replace(exemplar, value=seconds(turn))
            self._series.exemplify(loop_metrics.STEP_HOST_SECONDS, self._labels, at)
        if self._last_spacing is not None and self._last_spacing[0] == step:
            at = replace(exemplar, value=self._last_spacing[1])
            self._series.exemplify(loop_metrics.STEP_SECONDS, self._labels, at)

    def step_seconds(self) -> tuple[float | None, str | None, int]:
        """Seconds per step, their source (`completions` or `host`), and the number of steps that they are from."""
        if self._spacings and self._awaits_completions(self._last_end or 0):
            steps = sum(count for count, _ in self._spacings)
            return sum(count * spacing for count, spacing in self._spacings) / steps, "completions", steps
        if self._turns_are_long():
            return sum(self._newest) / len(self._newest), "host", len(self._newest)
        known = self._device_pace() if self._unseen else self._host_turns.all()
        if known is not None and not self._awaits_completions(self._last_end or 0):
            return known.seconds / known.steps, "host", known.steps
        return None, None, 0

    def completed_pace(self) -> float | None:
        """Seconds between completions of steps where the host runs ahead; None where it waits, or they are not known."""
        step_seconds, source, _ = self.step_seconds()
        return step_seconds if source == "completions" and not self._synchrony.host_waits else None

    def _device_pace(self) -> Block | None:
        """The device's pace, by turns of a host that waits for room in its queue; None where they do not show it."""
        known = self._behind_full_queue.all()
        return known if known is not None and known.tells_pace else None

    def least_seconds(self, steps: int) -> float | None:
        """The least seconds that the device takes for so many steps, by the host's turns; None where that is not known.

        It is 0 where outputs can be polled. Where none can, the host may have dispatched the steps long before they
        ran.
        """
        if not self._unseen:
            return 0.0
        pace = self._device_pace()
        return None if pace is None else steps * pace.seconds / pace.steps

    def _turns_are_long(self) -> bool:
        """Whether each of the newest turns takes a second or more, and no turn has had an inner loop or phase in it.

        A host that runs ahead has many short turns before it waits.
        """
        return not self._interrupted and min(self._newest, default=0.0) >= seconds(HOST_TURNS)

    def host_seconds(self) -> float | None:
        """The mean of the host's newest turns."""
        return sum(self._host) / len(self._host) if self._host else None

    def _add_spacing(self, event: StepCompleted) -> None:
        """Add the spacing since the last known completion, averaged over the steps between."""
        before, self._completed = self._completed, event
        self._synchrony.completed(event, self._turns)
        if before is None or event.step <= before.step or event.time <= before.time:
            return
        between = self._turns.between(before.step, before.time, event.step, event.time)
        turns = self._turns.durations(before.step, event.step) if self._synchrony.host_waits else None
        self._turns.forget_before(event.step)
        steps = event.step - before.step
        left_out = between.excluded + between.paused
        spacing = seconds(event.time - before.time - left_out) / steps
        most = MOST_LEFT_OUT * (event.time - before.time)
        if turns is None and (spacing <= 0 or left_out > most):
            return  # where that is so between all completions, the host's turns are shown
        self._unseen = False
        if not self._awaits_completions(event.time):
            self._spacings.clear()  # they are too old to be averaged with this one
        self._expected_until = event.time + max(COMPLETIONS_MISSING, 3 * (event.time - before.time))
        if turns is None:
            self._series.observe(loop_metrics.STEP_SECONDS, self._labels, spacing, steps)
        else:
            singly = each_in_seconds(turns)
            spacing = sum(singly) / steps
            self._series.observe_all(loop_metrics.STEP_SECONDS, self._labels, singly)
        self._spacings.append((steps, spacing))
        self._last_spacing = (event.step, spacing)
        known = between.steps == steps >= STEPS_FOR_A_SPACING
        if between.runs and known and left_out <= most:
            self._spaced(between.runs, spacing)

    def _awaits_completions(self, at: int) -> bool:
        """Whether two completions are still expected at `at`, or came recently enough."""
        return self._expected_until is not None and at < self._expected_until

    def _observe_host_turns(self, total: int, turns: Turns, at: int) -> None:
        """Add the host's turns, and observe their average where no completions give the step time.

        `total`: nanoseconds of all the turns, without compiles.
        """
        block = self._host_turns.add(total, turns.durations)
        filling = max(0, self._begun + IN_FLIGHT - turns.first)
        later = turns.durations[filling:]
        behind = self._behind_full_queue.add(sum(later) if filling else total, later)
        if self._unseen:
            block = behind if behind is not None and behind.tells_pace else None
        if block is not None and not self._awaits_completions(at):
            self._series.observe(
                loop_metrics.STEP_SECONDS, self._labels, block.seconds / block.steps, block.steps
            )
