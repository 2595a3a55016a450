"""The newest steps and compiles one by one, for whoever asks what happened just before."""

from __future__ import annotations

from collections import deque
from typing import Any

from jaxobs.derive.loops.steps.plain_steps import PlainSteps
from jaxobs.model.clock import seconds
from jaxobs.model.events import Compilation, StepEnded
from jaxobs.vocabulary.labels import EAGER

KEPT = 20


class Recent:
    """The last KEPT of each, newest last."""

    def __init__(self) -> None:
        self._steps: deque[StepEnded] = deque(maxlen=KEPT)
        self._compilations: deque[Compilation] = deque(maxlen=KEPT)

    def step_ended(self, event: StepEnded) -> None:
        self._steps.append(event)

    def steps_ended(self, steps: PlainSteps) -> None:
        self._steps.extend(steps.events(KEPT))

    def compiled(self, event: Compilation) -> None:
        self._compilations.append(event)

    def document(self, now: int) -> dict[str, Any]:
        """`ago`: seconds from the end of a step or of a compile to now."""
        return {
            "steps": [
                {
                    "loop": step.loop,
                    "step": step.step,
                    "seconds": seconds(step.end - step.start),
                    "input_wait_seconds": seconds(step.input_wait),
                    "failed": step.failed,
                    "ago": seconds(now - step.end),
                }
                for step in self._steps
            ],
            "compilations": [
                {
                    "function": made.function,
                    "number": made.executable,
                    "seconds": {phase: seconds(end - start) for phase, start, end in made.phases},
                    "recompilation": made.recompilation,
                    "recompilation_reason": None
                    if made.recompilation
                    else _why_no_recompilation(made.function),
                    "ago": seconds(now - made.time),
                }
                for made in self._compilations
            ],
        }


def _why_no_recompilation(function: str) -> str:
    if function == EAGER:
        return "eager operations are many functions, which are not compared"
    return "the first of its function, or of none of the program's own"
