"""How long a loop's steps take: the spacing of their completions on the device, else the host's turns."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import NamedTuple

from jaxobs.derive import catalogue as core
from jaxobs.derive.executables import Executables
from jaxobs.derive.series import Series
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import StepCompleted, StepEnded
from jaxobs.model.metrics import Exemplar

HOST_TURNS = NANOSECONDS
"""Where nothing is watched, step time is the host's turn averaged over at least this long: with a sync every twenty
steps the turn's median was 7 µs and its maximum 227 ms for true 10 ms steps."""

COMPLETIONS_MISSING = 10 * NANOSECONDS
"""A watched loop without two completions for this long has no output that could be asked, or ends and begins again before
a second one is; its host's turn is shown. At least three times the time between the last two: steps may take minutes."""

STEPS_FOR_A_SPACING = 8
"""Over so many steps the polls' uncertainty at both ends, at most a tenth of a step, is about a hundredth."""

STEPS_REMEMBERED = 20_000
"""Steps whose turns are kept until the completions around them are known: two samples apart they are 5 000 of 0.1 ms."""

COMPLETIONS_WAITING = 8
"""Completions that came before the end of their step is known; of more the oldest are given up."""


MOST_LEFT_OUT = 0.02
"""Of the time between two completions. Whether the device worked on in what is left out, at a checkpoint that waits for
it, say, is not known: the spacing would be too short."""


class Turn(NamedTuple):
    """One step on the host. `excluded` nanoseconds of it belong to inner loops, phases and checkpoints.

    From `pause` to `start` lies time that belongs to no step of the loop: between epochs, or in the loop around it.
    """

    step: int
    excluded: int
    pause: int
    start: int
    duration: int
    runs: tuple[int, ...]


class StepTimes:
    """Of one loop. Step time is absent until it is known from completions, or from a second of the host's turns."""

    def __init__(self, name: str, series: Series) -> None:
        self._labels = (name,)
        self._series = series
        self._turns: deque[Turn] = deque(maxlen=STEPS_REMEMBERED)
        self._last_end: int | None = None
        self._first_run: int | None = None
        self.completions_seen = False  # whether the device was ever seen to finish a step
        self._completed: StepCompleted | None = None
        self._waiting: deque[StepCompleted] = deque(maxlen=COMPLETIONS_WAITING)
        self._last_spacing: tuple[int, float] | None = None
        self._spacings: deque[tuple[int, float]] = deque(maxlen=60)
        self._expected_until: int | None = None
        self._host: deque[float] = deque(maxlen=1000)
        self._host_blocks: deque[tuple[float, int]] = deque(maxlen=30)
        self._host_pending: list[int] = [0, 0]

    @property
    def watched(self) -> bool:
        """Whether any step has called a watched function."""
        return self._first_run is not None

    def step_ended(self, event: StepEnded, turn: int, executables: Executables) -> None:
        """`turn` is the host's, in nanoseconds, without what is nested in it."""
        start = event.start - event.gap
        pause = start if self._last_end is None else min(start, self._last_end)
        if event.runs and self._first_run is None:
            self._first_run = event.end
            self._expected_until = event.end + COMPLETIONS_MISSING
        if not self.watched:
            self._turns.clear()  # no completion will ask for them; the last one is for exemplars
        self._turns.append(Turn(event.step, event.nested + event.checkpoint, pause, start, turn, event.runs))
        self._last_end = event.end
        self._host.append(seconds(turn))
        self._series.observe(core.STEP_HOST_SECONDS, self._labels, seconds(turn))
        self._observe_host_turns(turn, event.end)
        while self._waiting and self._waiting[0].step <= event.step:
            self._space(self._waiting.popleft(), executables)

    def completed(self, event: StepCompleted, executables: Executables) -> None:
        """The device is done with a step. Used as soon as all of the host's turns up to that step are known."""
        self.completions_seen = True
        if self._turns and self._turns[-1].step >= event.step:
            self._space(event, executables)
        else:
            self._waiting.append(event)

    def loop_ended(self) -> None:
        self._completed = None

    def exemplify(self, exemplar: Exemplar, step: int) -> None:
        """A span was made of a step: the buckets that hold its times point to it."""
        for turn in reversed(self._turns):
            if turn.step == step:
                at = replace(exemplar, value=seconds(turn.duration))
                self._series.exemplify(core.STEP_HOST_SECONDS, self._labels, at)
            if turn.step <= step:
                break
        if self._last_spacing is not None and self._last_spacing[0] == step:
            at = replace(exemplar, value=self._last_spacing[1])
            self._series.exemplify(core.STEP_SECONDS, self._labels, at)

    def step_seconds(self) -> tuple[float | None, str | None]:
        """Seconds a step, and whether they come from `completions` or from the `host`."""
        if self._spacings and self._awaits_completions(self._last_end or 0):
            steps = sum(count for count, _ in self._spacings)
            return sum(count * spacing for count, spacing in self._spacings) / steps, "completions"
        if self._host_blocks and not self._awaits_completions(self._last_end or 0):
            steps = sum(count for _, count in self._host_blocks)
            return sum(total for total, _ in self._host_blocks) / steps, "host"
        return None, None

    def host_seconds(self) -> float | None:
        """Average of the host's last turns."""
        return sum(self._host) / len(self._host) if self._host else None

    def _space(self, event: StepCompleted, executables: Executables) -> None:
        """The spacing since the last known completion, averaged over the steps between."""
        before, self._completed = self._completed, event
        if before is None or event.step <= before.step or event.time <= before.time:
            return
        between, inside, pauses = self._between(before, event)
        while self._turns and self._turns[0].step < event.step:
            self._turns.popleft()
        steps = event.step - before.step
        spacing = seconds(event.time - before.time - inside - pauses) / steps
        if spacing <= 0:
            return  # a step that was polled before what is excluded: nothing can be told from it
        most = MOST_LEFT_OUT * (event.time - before.time)
        if inside > most:
            return  # where that is so all the time, the host's turns are shown
        if not self._awaits_completions(event.time):
            self._spacings.clear()  # they are of another time
        self._expected_until = event.time + max(COMPLETIONS_MISSING, 3 * (event.time - before.time))
        self._spacings.append((steps, spacing))
        self._last_spacing = (event.step, spacing)
        self._series.observe(core.STEP_SECONDS, self._labels, spacing, steps)
        alone = len(between) == steps and len(set(between)) == 1 and len(between[0]) == 1
        if alone and steps >= STEPS_FOR_A_SPACING and inside + pauses <= most:
            executables.spaced(between[0][0], spacing)

    def _between(self, before: StepCompleted, event: StepCompleted) -> tuple[list[tuple[int, ...]], int, int]:
        """Runs of the steps between two completions, nanoseconds of what is left out inside them, and of pauses."""
        between, inside, pauses = [], 0, 0
        for turn in reversed(self._turns):
            if turn.step < before.step:
                break
            if turn.step < event.step:
                inside += turn.excluded
            if before.step < turn.step <= event.step:
                between.append(turn.runs)
                pauses += max(0, min(turn.start, event.time) - max(turn.pause, before.time))
        return between, inside, pauses

    def _awaits_completions(self, at: int) -> bool:
        """Whether two completions are to be expected, or have come of late."""
        return self._expected_until is not None and at < self._expected_until

    def _observe_host_turns(self, turn: int, at: int) -> None:
        self._host_pending[0] += turn
        self._host_pending[1] += 1
        turns, steps = self._host_pending
        if turns < HOST_TURNS:
            return
        self._host_pending = [0, 0]
        self._host_blocks.append((seconds(turns), steps))
        if not self._awaits_completions(at):
            self._series.observe(core.STEP_SECONDS, self._labels, seconds(turns) / steps, steps)
