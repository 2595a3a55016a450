"""The newest steps and compiles one by one, to show what happened just before a snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import seconds
from jaxobs.model.events import ROW_LENGTH, Compilation, StepEnded, StepRows, steps_of_rows
from jaxobs.model.figure import Figure, Later, figure
from jaxobs.vocabulary.text import EAGER

KEPT = 20


@dataclass(frozen=True, slots=True)
class RecentStep:
    """A step that ended `ago` seconds before the snapshot."""

    loop: str
    step: int
    seconds: float
    input_wait_seconds: float
    failed: bool
    ago: float


@dataclass(frozen=True, slots=True)
class RecentCompilation:
    """A compile of the executable `number`; `recompilation` is the cause of a recompile."""

    function: str
    number: int
    seconds: Mapping[str, float]
    recompilation: Figure[str]
    ago: float


@dataclass(frozen=True, slots=True)
class RecentView:
    """The newest steps and compiles, the newest last."""

    steps: Sequence[RecentStep]
    compilations: Sequence[RecentCompilation]


class Recent:
    """Remembers the last KEPT steps and compiles, the newest last."""

    def __init__(self) -> None:
        self._steps: deque[StepEnded | StepRows] = deque(maxlen=KEPT)
        """A step as its event, or as its row where it came together with many others."""
        self._compilations: deque[Compilation] = deque(maxlen=KEPT)

    def step_ended(self, event: StepEnded) -> None:
        self._steps.append(event)

    def steps_ended(self, steps: PlainSteps) -> None:
        newest = steps.rows[-KEPT * ROW_LENGTH :]
        self._steps.extend(newest[at : at + ROW_LENGTH] for at in range(0, len(newest), ROW_LENGTH))

    def compiled(self, event: Compilation) -> None:
        self._compilations.append(event)

    def view(self, now: int) -> Later[RecentView]:
        """What is shown at `now`. It is built only when it is written."""
        steps, compilations = tuple(self._steps), tuple(self._compilations)
        return Later(lambda: _view(steps, compilations, now))


def _view(steps: Iterable[StepEnded | StepRows], compilations: Iterable[Compilation], now: int) -> RecentView:
    ended = chain.from_iterable(steps_of_rows(step) if isinstance(step, list) else (step,) for step in steps)
    return RecentView(
        [
            RecentStep(
                step.loop, step.step, seconds(step.end - step.start), seconds(step.input_wait), step.failed,
                seconds(now - step.end),
            )
            for step in ended
        ],
        [
            RecentCompilation(
                event.function, event.executable,
                {phase: seconds(end - start) for phase, start, end in event.phases},
                figure(event.recompilation, _why_no_recompilation(event.function)),
                seconds(now - event.time),
            )
            for event in compilations
        ],
    )  # fmt: skip


def _why_no_recompilation(function: str) -> str:
    if function == EAGER:
        return "eager operations are many functions, which are not compared"
    return "the first of its function, or of none of the program's own"
