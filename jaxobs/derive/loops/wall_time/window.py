"""What happened in the last half minute of a loop, in slices of about a second."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass, field, replace

from jaxobs.derive.loops.wall_time.bottleneck import FEW_STEPS
from jaxobs.derive.metrics.series import LARGEST
from jaxobs.model.clock import NANOSECONDS, seconds

WINDOW = 30 * NANOSECONDS
"""Nanoseconds that rates, MFU and bottleneck cover: two scrapes at 15 s, the interval of Prometheus's example file."""

LATE = 3
"""A loop that has ended no step for the window's length, and for this many times as long as its steps take, has no
rates any more. The latter is for long steps: what a step of an hour does is not known before it ends."""


@dataclass(slots=True)
class Slice:
    """What a loop did between two snapshots; times are seconds, but for `end`, a moment in monotonic nanoseconds.

    `runs` are watched calls by number, as in `StepEnded.runs`.
    """

    end: int
    wall: float = 0.0
    steps: int = 0
    compiling: float = 0.0
    start: Slice | None = None
    """The part of this slice that belongs to the loop's first steps, where these compiled; None without such steps."""
    doubtful: Slice | None = None
    """The part in which the device worked on after the host had left the loop, for a time that is not known."""
    checkpoint: float = 0.0
    input_wait: float = 0.0
    examples: float = 0.0
    tokens: float = 0.0
    runs: Counter[int] = field(default_factory=Counter)
    spent: dict[int, float] = field(default_factory=dict)
    """Device seconds of watched runs in this time, by number; earlier slices may have called them."""
    samples: int = 0
    """How many runs were timed by polling."""
    host: dict[str, float] = field(default_factory=dict)
    """Sampled seconds of the main thread by what it did."""
    behind: float = 0.0
    """Seconds of work that the device still had before it at the end, by completions."""
    apart: float | None = None
    """Seconds charged to compiles, checkpoints and waits for input, with the device idle; None before the charge."""

    def settled(self) -> Slice:
        """The slice that rates and MFU are computed over: without what is doubtful, and the first steps that compiled.

        Where there are no other steps than the first ones, it is those without their compiles.
        """
        known = self if self.doubtful is None else self.without(self.doubtful)
        start = known.start
        if start is None:
            return known
        if start.steps >= known.steps:
            return replace(
                known, wall=known.wall - start.compiling, compiling=known.compiling - start.compiling
            )
        return known.without(start)

    def without(self, part: Slice) -> Slice:
        """What is left of this slice; an empty one where no step is left."""
        if part.steps >= self.steps:
            return Slice(self.end)
        return replace(
            self,
            wall=self.wall - part.wall, steps=self.steps - part.steps, compiling=self.compiling - part.compiling,
            examples=self.examples - part.examples, tokens=self.tokens - part.tokens, runs=self.runs - part.runs,
        )  # fmt: skip

    def doubt(self) -> None:
        """Take all of this slice so far for doubtful."""
        self.start, self.doubtful = None, replace(self, start=None, doubtful=None, runs=self.runs.copy())

    def add(self, other: Slice) -> None:
        """Add the wall time, steps, compiles, amounts and runs of another slice."""
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

        A checkpoint in which a host that ran ahead waits for the device is not taken off: the device works in it.
        """
        apart = self.compiling + self.checkpoint + self.input_wait if self.apart is None else self.apart
        own, calls = self.wall - apart, self.runs.total()
        return own / calls if calls and own > 0 else None


class Window:
    """The slices of the last WINDOW nanoseconds, and of long steps the newest that are enough for a label."""

    def __init__(self) -> None:
        self._slices: deque[Slice] = deque()
        self.behind_before = 0.0
        """Seconds of work that the device still had before it when the first slice began."""

    def append(self, piece: Slice) -> None:
        """Add a slice, which must not change any more, but for what turns out to be doubtful."""
        self._slices.append(piece)
        # The last slice is kept however old it is: a loop of minutes a step still has rates.
        while len(self._slices) > 1 and self._is_too_old(self._slices[0], piece.end):
            self.behind_before = self._slices.popleft().behind

    def doubt(self, since: int) -> None:
        """Take the slices that end after `since` for doubtful."""
        for piece in self._slices:
            if piece.end > since:
                piece.doubt()

    def _is_too_old(self, first: Slice, now: int) -> bool:
        """Whether the first slice lies before the window, and is no longer needed or longer ago than `LATE` of its steps.

        It is needed where the steps of the others are too few for a label.
        """
        age = now - first.end
        if age <= WINDOW:
            return False
        others = sum([piece.steps for piece in self._slices]) - first.steps
        return first.steps == 0 or others >= FEW_STEPS or seconds(age) * first.steps >= LATE * first.wall

    def pace(self) -> float | None:
        """The median pace of the slices; None where no slice has one."""
        known = [pace for piece in self._slices if (pace := piece.pace) is not None]
        return statistics.median(known) if known else None

    def total(self, before: int | None = None) -> Slice:
        """The sum of all slices, or of those that end before a moment.

        As old slices are dropped, so are the first steps with their compiles.
        """
        whole = Slice(self._slices[-1].end if self._slices else 0)
        for piece in self._slices:
            if before is not None and piece.end > before:
                break
            whole.add(piece)
            whole.checkpoint += piece.checkpoint
            whole.input_wait += piece.input_wait
            if piece.doubtful is not None:
                whole.doubtful = whole.doubtful or Slice(whole.end)
                whole.doubtful.add(piece.doubtful)
            if piece.start is not None:
                whole.start = whole.start or Slice(whole.end)
                whole.start.add(piece.start)
            for activity, sampled in piece.host.items():
                whole.host[activity] = whole.host.get(activity, 0.0) + sampled
            for run, spent in piece.spent.items():
                whole.spent[run] = whole.spent.get(run, 0.0) + spent
        return whole


def why_quiet(recent: Slice, now: int) -> str | None:
    """Why the last window is too old to describe the loop now; None where it is not."""
    silence = now - recent.end
    longest = LATE * recent.wall / recent.steps if recent.steps else 0.0
    if recent.end == 0 or silence <= WINDOW or seconds(silence) <= longest:
        return None
    return f"no step has ended for {seconds(silence):.0f} s"
