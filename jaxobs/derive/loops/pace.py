"""The pace of a loop: blocks of its steps, in which a change is sought."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from jaxobs.derive.loops.host_lines import HostLine
from jaxobs.derive.loops.stretches import MAX_COMPILING, Kind, Stretch, summed
from jaxobs.model.clock import NANOSECONDS

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
