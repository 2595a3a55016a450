"""Divides a profiler window among the loops: to each its steps, without the loops and phases nested in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from jaxobs.derive.steps import StepLog
from jaxobs.model.clock import seconds
from jaxobs.model.intervals import Span, joined

LONGER = 2
"""How many times as long as the longest whole step a step at a window's edge may take for the whole ones to represent
it. A longer one is of another kind: it may be the one that waits for the device, while the whole ones only
dispatched."""

INPUT = "\0input"
CALLS = "\0calls"
"""Behind a loop's name these stand for its waits for input, and for the steps in which its calls are counted."""

PHASES_REMEMBERED = 20_000
"""Phases in the steps of a loop that are kept, as a window that holds them may arrive later: as many as steps."""


class StepSpan(NamedTuple):
    """The times of a step in monotonic nanoseconds, and parts of its length in nanoseconds.

    `start` includes the gap before the step; it waits for input from `waiting` to `ready`. `turn` is its length without
    nested loops and phases, `apart` the part of that in compiles and checkpoints.
    """

    start: int
    waiting: int
    ready: int
    end: int
    turn: int
    apart: int
    nested: bool
    thread: int


@dataclass(frozen=True, slots=True)
class LoopPart:
    """The part of a window that lies in steps of one loop. Spans are monotonic nanoseconds."""

    spans: tuple[Span, ...]
    inputs: tuple[Span, ...]
    """The waits for input in these spans."""
    steps: float
    """Number of steps; one that lies half in the window counts as half a step."""
    active_seconds: float
    """Wall time of the steps without compiles and checkpoints."""
    whole: bool
    """Whether all these steps lie wholly in the window."""
    whole_steps: float = 0.0
    """How many steps lie wholly in the window; where others do not, calls are counted in these alone."""
    whole_spans: tuple[Span, ...] = ()
    """The spans of the steps that lie wholly in the window."""

    @property
    def stretches(self) -> dict[str, tuple[Span, ...]]:
        """The spans by what stands behind the loop's name for them in a trace: nothing, INPUT or CALLS."""
        return {"": self.spans, INPUT: self.inputs, CALLS: () if self.whole else self.whole_spans}


class LoopSpans:
    """The newest steps of a loop, in its `log`, and the phases inside them."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.phases: deque[Span] = deque(maxlen=PHASES_REMEMBERED)
        """The phases inside steps, in monotonic nanoseconds: their time is not the loop's."""
        self.left = 0
        """When the loop's iteration last ended."""

    def within(self, start: int, end: int) -> list[StepSpan]:
        """The steps that lie wholly or partly in [start, end]."""
        found = []
        for steps in self.log:
            if steps.begin >= end or steps.end <= start:
                continue
            apart, nested = steps.compiling + steps.checkpoint, steps.nested > 0
            columns = zip(steps.starts, steps.ends, steps.gaps, steps.waits, steps.turns, strict=True)
            found += [
                StepSpan(begin - gap, begin, begin + wait, stop, turn, min(turn, apart), nested, steps.thread)
                for begin, stop, gap, wait, turn in columns
                if begin - gap < end and stop > start
            ]
        return found


def parts_of(start: int, end: int, loops: Mapping[str, LoopSpans], lead: int = 0) -> dict[str, LoopPart]:
    """The parts of a window from `start` to `end`, by loop; a loop without any step in it has none.

    `lead`: for how long before it the profiler held up the step in which it started, which would not have been as long.

    Where there are whole steps, and the steps at the edges are not far longer than these, the whole steps alone count:
    the profiler does not record an operation that was under way when the window began or ended, so the device seems
    idle at its edges.
    """
    within = {name: spans.within(start, end) for name, spans in loops.items()}
    found = {}
    for name, overlapping in within.items():
        whole = [step for step in overlapping if step.start >= start and step.end <= end]
        at_edges = (step for step in overlapping if step.start < start or step.end > end)
        cut = max((step.turn - min(lead, max(0, start - step.start)) for step in at_edges), default=0)
        alike = bool(whole) and cut <= LONGER * max(step.turn for step in whole)
        steps = whole if alike else overlapping
        others = [span for other, inner in within.items() if other != name for span in inner]
        phases = [each for each in loops[name].phases if each[0] < end and each[1] > start]
        pieces: list[Span] = []
        whole_pieces: list[Span] = []
        inputs: list[Span] = []
        count = active = 0.0
        for step in steps:
            inside: list[Span] = []
            if step.nested:
                inside = [(each.start, each.end) for each in others if each.thread == step.thread]
                inside = [each for each in inside if step.start <= each[0] and each[1] <= step.end]
                inside += phases
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
            spans, waits, whole_spans = (tuple(joined(each)) for each in (pieces, inputs, whole_pieces))
            found[name] = LoopPart(spans, waits, count, active, alike, float(len(whole)), whole_spans)
    return found


def _without(span: Span, holes: Iterable[Span]) -> list[Span]:
    """The pieces of a span that lie in none of the holes."""
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
