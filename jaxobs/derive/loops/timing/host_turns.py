"""The host's turns in blocks of at least a second, whose averages are step times."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT
from jaxobs.model.clock import NANOSECONDS, seconds

HOST_TURNS = NANOSECONDS
"""Nanoseconds of turns in a block, at least. Over less the average is no step time: with a sync every twenty steps the
turn's median was 7 µs and its maximum 227 ms for true 10 ms steps."""

BLOCKS_KEPT = 30


EVEN = 3.0
"""Turns whose longest is at most this many times their average contain no wait for many steps at once."""

MANY = 10 * IN_FLIGHT
"""Turns needed where they are not `EVEN`: the host may be up to `IN_FLIGHT` steps ahead of the device at their
beginning and at their end, and that is a tenth of this many."""


class Block(NamedTuple):
    """Consecutive turns that take a second or a little more; `seconds` of `steps` turns, and of the `longest`."""

    seconds: float
    steps: int
    longest: float

    @property
    def tells_pace(self) -> bool:
        """Whether the device keeps the pace of these turns, though it is not known how far it is behind the host."""
        return self.steps >= MANY or self.longest <= EVEN * self.seconds / self.steps


class HostTurns:
    """The newest blocks of one loop."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque(maxlen=BLOCKS_KEPT)
        self._pending = self._steps = self._longest = 0

    def add(self, total: int, turns: Sequence[int]) -> Block | None:
        """Add turns, in nanoseconds; returns the block that they complete, if any.

        `total` is their sum, from which compiles may be taken off.
        """
        self._pending += total
        self._steps += len(turns)
        self._longest = max(self._longest, max(turns, default=0))
        if self._pending < HOST_TURNS or not self._steps:
            return None
        block = Block(seconds(self._pending), self._steps, seconds(self._longest))
        self._blocks.append(block)
        self._pending = self._steps = self._longest = 0
        return block

    def device_went_on(self, after: int) -> None:
        """Add nanoseconds in which the device worked on after the newest turns; no block is complete by them alone.

        They belong to turns that are known already: as a block of their own they would be one long step.
        """
        if self._steps:
            self._pending += after
        elif self._blocks:
            block = self._blocks[-1]
            self._blocks[-1] = block._replace(seconds=block.seconds + seconds(after))

    def all(self) -> Block | None:
        """The newest blocks as one; None before there is any."""
        if not self._blocks:
            return None
        blocks = self._blocks
        return Block(
            sum(block.seconds for block in blocks),
            sum(block.steps for block in blocks),
            max(block.longest for block in blocks),
        )
