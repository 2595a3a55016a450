"""What happened in the last half minute of a loop, in slices of about a second."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.cost import Cost

WINDOW = 30 * NANOSECONDS
"""Rates, MFU and bottleneck speak of this much time: two scrapes at Prometheus's default interval."""


@dataclass(slots=True)
class Slice:
    """What was folded between two snapshots. `work` is on one device; None where a run's cost is not known."""

    end: int
    wall: float = 0.0
    steps: int = 0
    examples: float = 0.0
    tokens: float = 0.0
    components: Mapping[str, float] = field(default_factory=dict)
    work: Cost = field(default_factory=Cost)
    uncosted_runs: int = 0
    unseen_runs: int = 0
    untimed_runs: int = 0
    device_seconds: float = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds in which the work was done: a host that only dispatches is done before the device is."""
        return max(self.wall, self.device_seconds)


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
            whole.work = whole.work + piece.work
            whole.uncosted_runs += piece.uncosted_runs
            whole.unseen_runs += piece.unseen_runs
            whole.untimed_runs += piece.untimed_runs
            whole.device_seconds += piece.device_seconds
            components.update(piece.components)
        whole.components = {word: float(amount) for word, amount in components.items()}
        return whole
