"""The pace of a loop: what a step usually takes and long ones took beyond, and blocks in which a change is sought."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from jaxobs.derive.loops.host_lines import HostLine
from jaxobs.derive.loops.stretches import MAX_COMPILING, Kind, Stretch, summed
from jaxobs.model.clock import NANOSECONDS

STEPS_KEPT = 200
"""Newest steps whose times give the usual step time: enough for a mean that one slow step does not move."""

ENOUGH_STEPS = 50
"""A loop of fewer steps has no usual step time. Before the first wait for the device XLA lets the host run 32 programs
ahead (`max_inflight_computations` of its clients), so the first turns say nothing of how long a step takes."""

FACTOR = 40
"""Multiple of the usual step time above which a step is long. A host that runs 32 steps ahead and then waits for the
device has one turn of 32 steps' time."""

MIN_STALL_SECONDS = 30.0
"""A shorter step is never long: it lies within the half minute that the loop's bottleneck covers, and is in its
components."""

IN_A_ROW = 5
"""Consecutive long steps after which the usual step time is taken anew: that is how long the loop's steps take now."""


class Stalls:
    """Sums up what long steps took beyond the usual step time, from each step's own seconds.

    A step's own seconds are those without compiles, checkpoints, waits for input, inner loops and phases. A step is
    long where they exceed `limit`; its seconds beyond `usual` are stalled, whatever the reason: an evaluation, say,
    that nobody marked.
    """

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=STEPS_KEPT)
        self._in_a_row = 0
        self.seconds = 0.0

    def add(self, own: Sequence[float]) -> None:
        """Add a step's own seconds, or those of many none of which is long. A long one is no usual one."""
        first = own[0]
        if first > MIN_STALL_SECONDS and (limit := self.limit) is not None and first > limit:
            self.seconds += first - self.usual
            self._in_a_row += 1
            if self._in_a_row == IN_A_ROW:
                self._usual.clear()
        else:
            self._usual.extend(own)
            self._in_a_row = 0

    @property
    def usual(self) -> float:
        """Seconds of a usual step: the mean or the 90th percentile, whichever is longer; 0 before the first step.

        The mean is right where the host waits for the device every so many steps, the percentile where it had run ahead
        at first.
        """
        if not self._usual:
            return 0.0
        ordered = sorted(self._usual)
        return max(statistics.fmean(ordered), ordered[int(0.9 * (len(ordered) - 1))])

    @property
    def limit(self) -> float | None:
        """Own seconds above which a step is long; None while too few steps are known."""
        if len(self._usual) < ENOUGH_STEPS:
            return None
        return max(MIN_STALL_SECONDS, FACTOR * self.usual)


PIECE_SECONDS: Final = 1.0
"""Least seconds of a piece: a loader that gives several batches at once makes steps uneven, but seldom seconds."""

BLOCK_SECONDS: Final = 10.0
MIN_PIECES: Final = 3
"""Least seconds of a block, and pieces, of which the median is taken: one of them may have a pause in it."""

TESTED: Final = (Kind.SEEN, Kind.TURNS, Kind.UNWATCHED)
"""Kinds of stretches of which it is known what their steps took."""


class Block(NamedTuple):
    """Some steps one after the other. Times are monotonic nanoseconds."""

    begin: int
    end: int
    wall: float
    """Seconds that its steps took."""
    step_seconds: float
    """The median, over its pieces, of what a step took."""
    runs: frozenset[int]
    """Executables that ran in it, by number."""
    sampled: Mapping[HostLine, float]
    """Sampled seconds of the loop's thread; empty where something lay between the steps that is no step's."""


class Pace:
    """Makes blocks of stretches."""

    def __init__(self) -> None:
        self._piece = Stretch()
        self._pieces: list[Stretch] = []
        self._is_disturbed = False
        self.blocks: deque[Block] = deque()
        """Those that nobody has taken yet."""

    def add(self, stretches: Iterable[Stretch]) -> None:
        """Add stretches that ended."""
        for each in stretches:
            spent = each.compiling + each.checkpoint
            is_left_out = each.kind not in TESTED or spent > MAX_COMPILING * each.wall
            self._is_disturbed |= is_left_out or each.breaks > 0
            if is_left_out:
                continue
            self._piece.add(each)
            self._piece.wall -= spent
            if self._piece.steps and self._piece.wall >= PIECE_SECONDS:
                self._pieces.append(self._piece)
                self._piece = Stretch()
                walls = [piece.wall for piece in self._pieces]
                if len(walls) >= MIN_PIECES and sum(walls) >= BLOCK_SECONDS:
                    self._close()

    def _close(self) -> None:
        pieces, first = self._pieces, self._pieces[0]
        begin, wall = first.end - round(first.wall * NANOSECONDS), sum(each.wall for each in pieces)
        step_seconds = statistics.median(each.wall / each.steps for each in pieces)
        runs = frozenset(run for each in pieces for run in each.runs if run > 0)
        sampled = {} if self._is_disturbed else summed(pieces).sampled
        self.blocks.append(Block(begin, pieces[-1].end, wall, step_seconds, runs, sampled))
        self._pieces, self._is_disturbed = [], False
