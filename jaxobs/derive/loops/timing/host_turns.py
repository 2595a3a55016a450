"""What a step takes by the host's turns, averaged over a second at least."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from jaxobs.derive.loops.timing.device_time import IN_FLIGHT
from jaxobs.model.clock import NANOSECONDS, seconds

HOST_TURNS = NANOSECONDS
"""Step time is the host's turn averaged over at least this long: with a sync every twenty steps the turn's median was
7 µs and its maximum 227 ms for true 10 ms steps."""

BLOCKS_KEPT = 30


EVEN = 3.0
MANY = 10 * IN_FLIGHT
"""Turns of which the longest is at most so many times the average have no wait in them for many steps at once. Of others
so many are needed: at both ends the device may be as far behind the host as it can be, and is a tenth of them at most."""


class Block(NamedTuple):
    """Turns of a second or a little more."""

    seconds: float
    steps: int
    longest: float

    @property
    def tells_pace(self) -> bool:
        """Whether the device keeps the pace of the host, of which it is not known how far the device is behind."""
        return self.steps >= MANY or self.longest <= EVEN * self.seconds / self.steps


class HostTurns:
    """The newest blocks of one loop."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque(maxlen=BLOCKS_KEPT)
        self._pending = self._steps = self._longest = 0

    def add(self, total: int, turns: Sequence[int] = ()) -> Block | None:
        """Nanoseconds of turns, and in all, which may be without their compiles. The block that they complete, if any."""
        self._pending += total
        self._steps += len(turns)
        self._longest = max(self._longest, max(turns, default=0))
        if self._pending < HOST_TURNS or not self._steps:
            return None
        block = Block(seconds(self._pending), self._steps, seconds(self._longest))
        self._blocks.append(block)
        self._pending = self._steps = self._longest = 0
        return block

    def all(self) -> Block | None:
        """The blocks together; None before there is one."""
        if not self._blocks:
            return None
        blocks = self._blocks
        return Block(
            sum(block.seconds for block in blocks),
            sum(block.steps for block in blocks),
            max(block.longest for block in blocks),
        )
