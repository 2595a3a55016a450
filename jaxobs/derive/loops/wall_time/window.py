"""What happened in the last half minute of a loop, in slices of about a second."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field, replace

from jaxobs.derive.metrics.series import LARGEST
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
    start: Slice | None = None
    """What of all this is of the loop's first steps, where they compiled."""
    checkpoint: float = 0.0
    input_wait: float = 0.0
    examples: float = 0.0
    tokens: float = 0.0
    runs: Counter[int] = field(default_factory=Counter)
    spent: dict[int, float] = field(default_factory=dict)
    """Device seconds of watched runs, by number: those in this time, which others may have called."""
    samples: int = 0
    """Of runs, that were timed by polling."""
    host: dict[str, float] = field(default_factory=dict)
    """Sampled seconds of the main thread by what it did."""
    apart: float | None = None
    """Seconds charged to compiles, checkpoints and waits for input: those in which the device was done. None before."""

    def settled(self) -> Slice:
        """What rates and MFU are over: all but the first steps that compiled, which say nothing about the pace.

        Where nothing else is, those without their compiles.
        """
        start = self.start
        if start is None:
            return self
        if start.steps >= self.steps:
            return replace(self, wall=self.wall - start.compiling, compiling=self.compiling - start.compiling)
        return replace(
            self,
            wall=self.wall - start.wall, steps=self.steps - start.steps, compiling=self.compiling - start.compiling,
            examples=self.examples - start.examples, tokens=self.tokens - start.tokens, runs=self.runs - start.runs,
        )  # fmt: skip

    def add(self, other: Slice) -> None:
        """The steps of another stretch, what they were for and what they ran."""
        self.wall += other.wall
        self.steps += other.steps
        self.compiling += other.compiling
        self.examples = min(self.examples + other.examples, LARGEST)
        self.tokens = min(self.tokens + other.tokens, LARGEST)
        for run, count in other.runs.items():  # `Counter.update` takes three times as long
            self.runs[run] += count

    @property
    def pace(self) -> float | None:
        """Seconds from one watched call to the next, without those in which the device had nothing to do.

        A checkpoint that waits for the device, of a host that runs ahead of it, is time of the calls before it.
        """
        apart = self.compiling + self.checkpoint + self.input_wait if self.apart is None else self.apart
        own, calls = self.wall - apart, self.runs.total()
        return own / calls if calls and own > 0 else None


class Window:
    """The slices of the last WINDOW nanoseconds."""

    def __init__(self) -> None:
        self._slices: deque[Slice] = deque()
        self._paces: deque[float | None] = deque()

    def append(self, piece: Slice) -> None:
        """Add a stretch that is over: it changes no more."""
        self._slices.append(piece)
        self._paces.append(piece.pace)
        # The last slice is kept however old it is: a loop of minutes a step still has rates.
        while len(self._slices) > 1 and self._slices[0].end < piece.end - WINDOW:
            self._slices.popleft()
            self._paces.popleft()

    def pace(self) -> float | None:
        """The median of the slices'."""
        known = [pace for pace in self._paces if pace is not None]
        return statistics.median(known) if known else None

    def total(self) -> Slice:
        """All slices as one. Compile seconds of the first steps go with them as they age."""
        slices = self._slices
        whole = Slice(
            slices[-1].end if slices else 0,
            sum([piece.wall for piece in slices], 0.0),
            sum([piece.steps for piece in slices]),
            sum([piece.compiling for piece in slices], 0.0),
            checkpoint=sum([piece.checkpoint for piece in slices], 0.0),
            input_wait=sum([piece.input_wait for piece in slices], 0.0),
            examples=min(sum([piece.examples for piece in slices], 0.0), LARGEST),
            tokens=min(sum([piece.tokens for piece in slices], 0.0), LARGEST),
        )
        for piece in slices:
            if piece.start is not None:
                whole.start = whole.start or Slice(whole.end)
                whole.start.add(piece.start)
            for run, count in piece.runs.items():
                whole.runs[run] += count
            for activity, sampled in piece.host.items():
                whole.host[activity] = whole.host.get(activity, 0.0) + sampled
            for run, spent in piece.spent.items():
                whole.spent[run] = whole.spent.get(run, 0.0) + spent
        return whole
