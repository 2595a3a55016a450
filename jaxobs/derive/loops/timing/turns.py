"""The host's turns of a loop (a step and the gap before it), kept until completions of these steps are known."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.events import StepEnded
from jaxobs.model.intervals import Span

STEPS_REMEMBERED = 20_000
"""Steps whose turns are kept until the completions around them are known: between two samples lie 5 000 of 0.1 ms."""


@dataclass(frozen=True, slots=True)
class Turns:
    """One step, or consecutive steps given together. `excluded` nanoseconds of it belong to inner loops and phases."""

    first: int
    last: int
    excluded: int
    pauses: tuple[Span, ...]
    """Time that belongs to no step of the loop: between epochs, or in the loop around it."""
    runs: tuple[int, ...] | None
    """What each step ran; None where that is not the same for all."""
    durations: list[int]
    end: int
    """When the last of these steps ended."""

    @classmethod
    def of_step(cls, event: StepEnded, turn: int, before: int | None) -> Turns:
        """The turn of one step; `before`: when the step before it ended."""
        pauses = _pauses(before, event.start - event.gap)
        return cls(
            event.step, event.step, event.nested + event.checkpoint, pauses, event.runs, [turn], event.end
        )

    @classmethod
    def of_steps(cls, steps: PlainSteps, before: int | None) -> Turns:
        """The turns of many steps; `before`: when the step before them ended."""
        begin = steps.starts[0] - steps.gaps[0]
        pauses = list(_pauses(before, begin))
        if sum(steps.turns) != steps.ends[-1] - begin:
            for end, start, gap in zip(steps.ends, steps.starts[1:], steps.gaps[1:], strict=False):
                pauses += _pauses(end, start - gap)
        return cls(steps.first, steps.last, 0, tuple(pauses), steps.each_ran, steps.turns, steps.ends[-1])


class Between(NamedTuple):
    """What is known of the steps between two completions.

    `runs`: what each of them ran; None where they differ. `excluded` and `paused` are nanoseconds.
    """

    steps: int
    runs: tuple[int, ...] | None
    excluded: int
    paused: int


class TurnLog:
    """The newest turns of a loop."""

    def __init__(self) -> None:
        self._turns: deque[Turns] = deque()
        self._steps = 0

    @property
    def last(self) -> int | None:
        """The number of the newest step."""
        return self._turns[-1].last if self._turns else None

    def append(self, turns: Turns) -> None:
        self._turns.append(turns)
        self._steps += len(turns.durations)
        while self._steps > STEPS_REMEMBERED and len(self._turns) > 1:
            self._forget_oldest()

    def forget_all(self) -> None:
        self._turns.clear()
        self._steps = 0

    def forget_before(self, step: int) -> None:
        while self._turns and self._turns[0].last < step:
            self._forget_oldest()

    def duration(self, step: int) -> int | None:
        """Nanoseconds of a step's turn, if it is remembered."""
        for turns in reversed(self._turns):
            if turns.first <= step <= turns.last:
                return turns.durations[step - turns.first]
        return None

    def durations(self, first: int, last: int) -> list[int] | None:
        """Nanoseconds of each turn after step `first` up to `last`; None where not all of them are remembered."""
        found: list[int] = []
        for turns in self._turns:
            begin, end = max(turns.first, first + 1), min(turns.last, last)
            if begin <= end:
                found += turns.durations[begin - turns.first : end - turns.first + 1]
        return found if len(found) == last - first else None

    def end_of(self, step: int) -> int | None:
        """When a step ended, if it is remembered."""
        for turns in reversed(self._turns):
            if turns.first <= step <= turns.last:
                end = turns.end - sum(turns.durations[step - turns.first + 1 :])
                for start, stop in reversed(turns.pauses):
                    if end - (stop - start) <= start:
                        end -= stop - start
                return end
        return None

    def mean_duration(self) -> float | None:
        """The mean of all remembered turns, in nanoseconds; None where there is none."""
        return sum(sum(turns.durations) for turns in self._turns) / self._steps if self._steps else None

    def between(self, first: int, begin: int, last: int, end: int) -> Between:
        """What lies in the steps after `first` up to `last`, which the device was done with at `begin` and at `end`."""
        steps = excluded = paused = 0
        kinds: set[tuple[int, ...] | None] = set()
        for turns in reversed(self._turns):
            if turns.last < first:
                break
            if turns.first < last:
                excluded += turns.excluded
            within = min(turns.last, last) - max(turns.first, first + 1) + 1
            if within > 0:
                steps += within
                kinds.add(turns.runs)
                paused += sum(max(0, min(stop, end) - max(start, begin)) for start, stop in turns.pauses)
        (runs,) = kinds if len(kinds) == 1 else (None,)
        return Between(steps, runs, excluded, paused)

    def _forget_oldest(self) -> None:
        self._steps -= len(self._turns.popleft().durations)


def _pauses(before: int | None, begin: int) -> tuple[Span, ...]:
    return ((before, begin),) if before is not None and before < begin else ()
