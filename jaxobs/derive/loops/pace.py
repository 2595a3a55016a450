"""The pace of a loop in blocks of some seconds, each with what its thread was seen to do: what a change is sought in."""

from __future__ import annotations

import statistics
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from jaxobs.derive.loops.host_lines import HostLine
from jaxobs.derive.loops.stretches import MAX_COMPILING, Kind, Stretch
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
        self._sampled_before: dict[HostLine, float] = {}
        self._is_disturbed = False
        self.blocks: deque[Block] = deque()
        """Those that nobody has taken yet."""

    def add(self, stretches: Iterable[Stretch], sampled: Mapping[HostLine, float]) -> None:
        """Add stretches that ended; `sampled` are all sampled seconds of the loop's thread so far."""
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
                if (
                    len(self._pieces) >= MIN_PIECES
                    and sum(each.wall for each in self._pieces) >= BLOCK_SECONDS
                ):
                    self._close(sampled)

    def _close(self, sampled: Mapping[HostLine, float]) -> None:
        pieces, before = self._pieces, self._sampled_before
        new = {
            line: spent - before.get(line, 0.0)
            for line, spent in sampled.items()
            if spent > before.get(line, 0.0)
        }
        first = pieces[0]
        runs = Counter[int]()
        for each in pieces:
            runs.update(each.runs)
        self.blocks.append(
            Block(
                first.end - round(first.wall * NANOSECONDS),
                pieces[-1].end,
                sum(each.wall for each in pieces),
                statistics.median(each.wall / each.steps for each in pieces),
                frozenset(run for run in runs if run > 0),
                {} if self._is_disturbed else new,
            )
        )
        self._pieces, self._sampled_before, self._is_disturbed = [], dict(sampled), False
