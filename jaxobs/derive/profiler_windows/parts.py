"""Which parts of a profiler window belong to which loop: its steps, without the loops and phases inside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.derive.steps.step_log import StepLog
from jaxobs.model.clock import seconds
from jaxobs.model.events import StepEnded
from jaxobs.model.intervals import Span, joined

LONGER = 2
"""Steps cut by a window's edges that take this many times as long as the longest whole one are of another kind: the host
dispatched in the whole ones, and waits for the device in that one, say. Whole ones alone would not tell of it."""

STEPS_REMEMBERED = 20_000
"""Steps of a loop whose times are kept until a window comes that may hold them: two seconds of steps of 0.1 ms."""


class StepSpan(NamedTuple):
    """When a step was, in monotonic nanoseconds; `start` with the gap before it. `turn` is without what is nested."""

    start: int
    waiting: int
    ready: int
    end: int
    turn: int
    apart: int
    nested: bool
    thread: int

    @classmethod
    def of(cls, event: StepEnded, turn: int, compiling: int) -> StepSpan:
        """`compiling` nanoseconds of the turn were spent in compiles on its thread."""
        start = event.start - event.gap
        apart = min(turn, compiling + event.checkpoint)
        ready = event.start + event.input_wait
        return cls(start, event.start, ready, event.end, turn, apart, event.nested > 0, event.thread)


class PhaseSpan(NamedTuple):
    """A phase inside a step of a loop, whose time is not the loop's."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LoopPart:
    """What of a window lies in steps of one loop. Spans are monotonic nanoseconds."""

    spans: tuple[Span, ...]
    inputs: tuple[Span, ...]
    """The waits for input among them."""
    steps: float
    """Steps; of one that lies half in the window, half a step."""
    active_seconds: float
    """Their wall time without compiles and checkpoints."""
    input_seconds: float
    whole: bool
    """Whether only whole steps are in it."""
    whole_steps: float = 0.0
    """Where there are others as well: how many, and where. The calls in them are those of so many steps."""
    whole_spans: tuple[Span, ...] = ()


class LoopSpans:
    """The newest steps of a loop, and the phases in them."""

    def __init__(self) -> None:
        self._steps: StepLog[StepSpan] = StepLog(STEPS_REMEMBERED)
        self.phases: deque[PhaseSpan] = deque(maxlen=STEPS_REMEMBERED)
        self.over = False
        """Its iteration ended, and no step has come since."""

    def append(self, steps: StepSpan | PlainSteps) -> None:
        """A step, or many of which nothing is nested or compiled."""
        self._steps.append(steps)
        self.over = False

    @property
    def last_end(self) -> int:
        newest = next(reversed(self._steps))
        return newest.ends[-1] if isinstance(newest, PlainSteps) else newest.end

    def within(self, start: int, end: int) -> list[StepSpan]:
        """Steps that lie in [start, end], or partly."""
        found = []
        for steps in self._steps:
            if isinstance(steps, PlainSteps):
                if steps.starts[0] - steps.gaps[0] >= end or steps.ends[-1] <= start:
                    continue
                spans = [
                    StepSpan.of(event, event.gap + event.end - event.start, 0) for event in steps.events()
                ]
            else:
                spans = [steps]
            found += [span for span in spans if span.start < end and span.end > start]
        return found


def parts_of(start: int, end: int, loops: Mapping[str, LoopSpans]) -> dict[str, LoopPart]:
    """The parts of a window from `start` to `end`; a loop without any step in it has none.

    Only whole steps count where there are any, and those at the edges are no longer than these: the profiler does not
    record an operation that was under way when the window began or ended, so the device seems idle at its edges.
    """
    within = {name: spans.within(start, end) for name, spans in loops.items()}
    found = {}
    for name, overlapping in within.items():
        whole = [step for step in overlapping if step.start >= start and step.end <= end]
        cut = max((step.turn for step in overlapping if step.start < start or step.end > end), default=0)
        alike = bool(whole) and cut <= LONGER * max(step.turn for step in whole)
        steps = whole if alike else overlapping
        others = [span for other, inner in within.items() if other != name for span in inner]
        pieces: list[Span] = []
        whole_pieces: list[Span] = []
        inputs: list[Span] = []
        count = active = 0.0
        for step in steps:
            inside: list[Span] = []
            if step.nested:
                inside = [(other.start, other.end) for other in others if _lies_in(other, step)]
                inside += [(phase.start, phase.end) for phase in loops[name].phases]
            own = _without((max(step.start, start), min(step.end, end)), inside)
            length = sum(stop - begin for begin, stop in own)
            share = min(1.0, length / step.turn) if step.turn > 0 else 0.0
            count += share
            active += share * seconds(step.turn - step.apart)
            pieces += own
            whole_pieces += own if step.start >= start and step.end <= end else []
            wait = max(step.waiting, start), min(step.ready, end)
            if wait[1] > wait[0]:
                inputs.append(wait)
        if pieces and count > 0:
            waited = seconds(sum(stop - begin for begin, stop in inputs))
            found[name] = LoopPart(
                tuple(joined(pieces)), tuple(joined(inputs)), count, active, waited, alike,
                float(len(whole)), tuple(joined(whole_pieces)),
            )  # fmt: skip
    return found


def _lies_in(inner: StepSpan, outer: StepSpan) -> bool:
    return inner.thread == outer.thread and inner.start >= outer.start and inner.end <= outer.end


def _without(span: Span, holes: Iterable[Span]) -> list[Span]:
    """What of a span lies in none of the holes."""
    start, end = span
    left = []
    for begin, stop in sorted(holes):
        if begin > start:
            left.append((start, min(begin, end)))
        start = max(start, stop)
        if start >= end:
            break
    left.append((start, end))
    return [(begin, stop) for begin, stop in left if stop > begin]
