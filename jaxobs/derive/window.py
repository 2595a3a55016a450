"""What happened in the last half minute of a loop, in slices of about a second."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.model.clock import NANOSECONDS

WINDOW = 30 * NANOSECONDS
"""Rates, MFU and bottleneck speak of this much time: two scrapes at Prometheus's default interval."""


@dataclass(slots=True)
class Slice:
    """What was folded between two snapshots, in seconds. `runs` are watched calls by number, as in `StepEnded.runs`."""

    end: int
    wall: float = 0.0
    steps: int = 0
    compiling: float = 0.0
    checkpoint: float = 0.0
    input_wait: float = 0.0
    examples: float = 0.0
    tokens: float = 0.0
    components: Mapping[str, float] = field(default_factory=dict)
    runs: Counter[int] = field(default_factory=Counter)
    by_operation: float = 0.0
    """Device seconds in `components` that were charged operation by operation, from profiler windows."""


class Window:
    """The slices of the last WINDOW nanoseconds."""

    def __init__(self) -> None:
        self._slices: deque[Slice] = deque()

    def append(self, piece: Slice) -> None:
        self._slices.append(piece)
        # The last slice is kept however old it is: a loop of minutes a step still has rates.
        while len(self._slices) > 1 and self._slices[0].end < piece.end - WINDOW:
            self._slices.popleft()

    def total(self) -> Slice:
        """All slices as one. Compile seconds of the first steps go with them as they age."""
        whole = Slice(self._slices[-1].end if self._slices else 0)
        components: Counter[str] = Counter()
        for piece in self._slices:
            whole.wall += piece.wall
            whole.steps += piece.steps
            whole.examples += piece.examples
            whole.tokens += piece.tokens
            whole.by_operation += piece.by_operation
            whole.compiling += piece.compiling
            whole.checkpoint += piece.checkpoint
            whole.input_wait += piece.input_wait
            whole.runs.update(piece.runs)
            components.update(piece.components)
        whole.components = {word: float(amount) for word, amount in components.items()}
        return whole
