"""What a watched function ran, as its events tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jaxobs.model.events import ExecutableCreated, FunctionCalled, StepEnded
from jaxobs.probe.steps.marks import StepMark


def step(observed: Any, loop: str = "train") -> StepMark:
    return StepMark(observed.side.loops, loop, None, None)


def executables(observed: Any, function: str) -> list[int]:
    return [made.executable for made in observed.of(ExecutableCreated) if made.function == function]


def runs(observed: Any) -> Counter[int]:
    """By executable; negative where it is not known which."""
    counted: Counter[int] = Counter()
    for event in observed.of(StepEnded, FunctionCalled):
        if isinstance(event, StepEnded):
            counted.update(event.runs)
        else:
            counted[event.run] += event.calls
    return counted
