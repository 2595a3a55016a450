"""Time. Durations and deadlines come from the monotonic clock alone, so a wall clock that jumps hurts none of them.

On Linux and macOS `time.monotonic_ns` is one clock for all processes of a host, so an instant noted in the training
process means the same in the agent. Wall-clock time is derived once per process from an anchor and only for showing.
"""

from __future__ import annotations

import time
from typing import NamedTuple

NANOSECONDS = 1_000_000_000

now = time.monotonic_ns
"""Nanoseconds of the host's monotonic clock."""


class ClockAnchor(NamedTuple):
    """One instant read on both clocks, to turn monotonic times into wall-clock times."""

    monotonic: int
    wall: int

    @classmethod
    def read(cls) -> ClockAnchor:
        return cls(time.monotonic_ns(), time.time_ns())

    def wall_time(self, monotonic: int) -> int:
        """Wall-clock nanoseconds since the Unix epoch of a monotonic instant."""
        return self.wall + (monotonic - self.monotonic)


def seconds(nanoseconds: int) -> float:
    """Nanoseconds as seconds."""
    return nanoseconds / NANOSECONDS
