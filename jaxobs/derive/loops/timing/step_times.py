"""How long a loop's steps take.

Where the host waits for the device in each step, that is the host's turn, of every single one. Where it runs ahead it is
the spacing of completions on the device, averaged between those that were seen. Where no completion is, it is the host's
turns, averaged over a second at least: without those that may only have filled the device's queue, where no output can be
asked whether they did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from jaxobs.derive.loops.timing.device_time import IN_FLIGHT
from jaxobs.derive.loops.timing.host_turns import HOST_TURNS, Block, HostTurns
from jaxobs.derive.loops.timing.synchrony import Synchrony
from jaxobs.derive.loops.timing.turns import TurnLog, Turns
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import NANOSECONDS, each_in_seconds, seconds
from jaxobs.model.events import StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar

COMPLETIONS_MISSING = 10 * NANOSECONDS
"""A watched loop without two completions for this long has no output that could be asked, or ends and begins again before
a second one is; its host's turn is shown. At least three times the time between the last two: steps may take minutes."""

STEPS_FOR_A_SPACING = 8
"""Over so many steps the polls' uncertainty at both ends, at most a tenth of a step, is about a hundredth."""

COMPLETIONS_WAITING = 8
"""Completions that came before the end of their step is known; of more the oldest are given up."""


MOST_LEFT_OUT = 0.02
"""Of the time between two completions. Whether the device worked on in what is left out, between epochs or at a
checkpoint that waits for it, is not known: the spacing would be too short."""


class StepTimes:
    """The step times of one loop: absent until they are known from completions, or from a second of the host's turns.

    `spaced` is called with what steps ran, and nothing else, that completed so many seconds apart.
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
        """The first step since the host was last elsewhere than in this loop."""
        self._unseen = False
        """Whether no output of the steps can be asked."""
        self._newest: deque[float] = deque(maxlen=30)
        """The newest turns, each without its compiles, s."""
        self._interrupted = False
        """Whether a turn had an inner loop or a phase in it, while the device may have gone on."""

    @property
    def watched(self) -> bool:
        """Whether any step has called a watched function."""
        return self._first_run is not None

    def step_ended(self, event: StepEnded, turn: int, compiling: int = 0) -> None:
        """`turn` is the host's, in nanoseconds, without what is nested in it; for `compiling` of them it compiled."""
        turns = Turns.of_step(event, turn, self._last_end)
        self._ended(turns, event.end, runs=bool(event.runs), compiling=compiling)

    def steps_ended(self, steps: PlainSteps) -> None:
        """Add many steps at once."""
        turns = Turns.of_steps(steps, self._last_end)
        self._ended(turns, steps.ends[-1], runs=bool(steps.runs))

    def _ended(self, turns: Turns, end: int, *, runs: bool, compiling: int = 0) -> None:
        if runs and self._first_run is None:
            self._first_run = end
            self._expected_until = end + COMPLETIONS_MISSING
        if not self.watched:
            self._turns.forget_all()  # no completion will ask for them; the last one is for exemplars
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
            self._space(self._waiting.popleft())

    def completed(self, event: StepCompleted) -> None:
        """The device is done with a step. Used as soon as all of the host's turns up to that step are known."""
        self.completions_seen = True
        if self._turns.last is not None and self._turns.last >= event.step:
            self._space(event)
        else:
            self._waiting.append(event)

    def unseen(self) -> None:
        """No output of a step can be asked: unless completions of another call come, none are to be expected."""
        self._synchrony.host_was_ahead()
        if not self._spacings:
            self._unseen, self._expected_until = True, None

    def device_went_on(self, after: float) -> None:
        """The device worked on for so many seconds after the host had left the loop: they are its steps' time too.

        Where no two completions were seen in one go of the loop none are to be expected: it is over too soon.
        """
        self._host_turns.add(round(after * NANOSECONDS))
        if after > 0 and not self._spacings:
            self._expected_until = self._last_end

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """A span was made of a step: the buckets that hold its times point to it."""
        turn = self._turns.duration(step)
        if turn is not None:
            at = replace(exemplar, value=seconds(turn))
            self._series.exemplify(loop_metrics.STEP_HOST_SECONDS, self._labels, at)
        if self._last_spacing is not None and self._last_spacing[0] == step:
            at = replace(exemplar, value=self._last_spacing[1])
            self._series.exemplify(loop_metrics.STEP_SECONDS, self._labels, at)

    def step_seconds(self) -> tuple[float | None, str | None, int]:
        """Seconds a step, whether they come from `completions` or from the `host`, and of how many steps."""
        if self._spacings and self._awaits_completions(self._last_end or 0):
            steps = sum(count for count, _ in self._spacings)
            return sum(count * spacing for count, spacing in self._spacings) / steps, "completions", steps
        if self._are_long():
            return sum(self._newest) / len(self._newest), "host", len(self._newest)
        known = self._pace() if self._unseen else self._host_turns.all()
        if known is not None and not self._awaits_completions(self._last_end or 0):
            return known.seconds / known.steps, "host", known.steps
        return None, None, 0

    def _pace(self) -> Block | None:
        """The device's pace, by the turns of a host that it holds up; None where they do not tell."""
        known = self._behind_full_queue.all()
        return known if known is not None and known.tells_pace else None

    def least_seconds(self, steps: int) -> float | None:
        """What the device takes for them at least, as far as the host's turns tell. None where nothing does.

        Where no output can be asked the host may have made them long before.
        """
        if not self._unseen:
            return 0.0
        pace = self._pace()
        return None if pace is None else steps * pace.seconds / pace.steps

    def _are_long(self) -> bool:
        """Whether each of the newest turns takes a second or more, and has nothing else in it.

        A host that runs ahead makes many short ones before it waits.
        """
        return not self._interrupted and min(self._newest, default=0.0) >= seconds(HOST_TURNS)

    def host_seconds(self) -> float | None:
        """Average of the host's last turns."""
        return sum(self._host) / len(self._host) if self._host else None

    def _space(self, event: StepCompleted) -> None:
        """The spacing since the last known completion, averaged over the steps between."""
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
            return  # where that is so all the time, the host's turns are shown
        self._unseen = False
        if not self._awaits_completions(event.time):
            self._spacings.clear()  # they are of another time
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
        """Whether two completions are to be expected, or have come of late."""
        return self._expected_until is not None and at < self._expected_until

    def _observe_host_turns(self, total: int, turns: Turns, at: int) -> None:
        """`total` is of all the turns, without compiles."""
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
