"""Marks under a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jaxobs.flow.ring import Ring
from jaxobs.flow.wire import Frames, events_frame, events_of
from jaxobs.model.events import PhaseStarted, StepEnded, steps_of_rows
from jaxobs.probe.steps import iteration as iteration_module
from jaxobs.probe.steps import loops as loops_module
from jaxobs.probe.steps import marks as marks_module
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.steps.marks import PhaseMark, StepMark


def sent_events(ring: Ring) -> list[Any]:
    """What is in the ring, as the agent would get it, each step an event of its own."""
    data, refused = events_frame(ring.drain())
    assert refused == 0
    told = [item for _, body in Frames().feed(data) for item in events_of(body)]
    return [event for item in told for event in (steps_of_rows(item) if isinstance(item, list) else [item])]


class Marks:
    """The marks as `Observer` makes them, under a clock that the test moves."""

    def __init__(self) -> None:
        self.time = 1_000
        self.ring = Ring(100_000)
        self.phases_started: list[PhaseStarted] = []
        self.loops = Loops(self.ring)

    def work(self, duration: int) -> None:
        self.time += duration

    def steps(self, iterable: Any, loop: str = "train", **amounts: Any) -> Any:
        return Steps(self.loops, iterable, loop, **({"examples": None, "tokens": None} | amounts))

    def step(self, loop: str = "train", **amounts: Any) -> StepMark:
        return StepMark(self.loops, loop, **({"examples": None, "tokens": None} | amounts))

    def phase(self, name: str) -> PhaseMark:
        return PhaseMark(self.loops, name)

    def ran(self, run: int = 1) -> None:
        """What a watched function does, and takes no time."""
        step = self.loops.current.step
        if step is not None and step.run:
            step.later_runs.append(run)
        elif step is not None:
            step.run = run

    def events(self) -> list[Any]:
        told = sent_events(self.ring)
        self.phases_started += [event for event in told if isinstance(event, PhaseStarted)]
        return [event for event in told if not isinstance(event, PhaseStarted)]

    def slow_items(self, count: int, wait: int) -> Iterator[int]:
        for item in range(count):
            self.work(wait)
            yield item


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    made = Marks()
    monkeypatch.setattr(loops_module, "now", lambda: made.time)
    monkeypatch.setattr(iteration_module, "now", lambda: made.time)
    monkeypatch.setattr(marks_module, "now", lambda: made.time)
    return made


def steps_of(events: list[Any], loop: str = "train") -> list[StepEnded]:
    return [event for event in events if isinstance(event, StepEnded) and event.loop == loop]


def own(event: StepEnded) -> int:
    return event.gap + event.end - event.start - event.nested


def run(marks: Marks, program: Any) -> None:
    match program:
        case ("work", duration):
            marks.work(duration)
        case ("steps", loop, count, body):
            for _ in marks.steps(marks.slow_items(count, wait=3), loop=loop):
                for part in body:
                    run(marks, part)
        case ("step", loop, body):
            with marks.step(loop):
                for part in body:
                    run(marks, part)
        case ("phase", name, body):
            with marks.phase(name):
                for part in body:
                    run(marks, part)
