"""The clocks of jaxobs. Durations and deadlines use only the monotonic clock, so a wall clock that jumps affects none.

On Linux and macOS `time.monotonic_ns` is one clock for all processes of a host, so an instant noted in the training
process means the same in the agent. Wall-clock time is derived from an anchor, which the
agent reads anew where the two clocks have come apart, and only for display.

The clocks are bound here when jaxobs is imported, and all other modules import them from here. A test of the job's that
replaces `time.monotonic` or `time.sleep` therefore neither sees nor changes calls of ours. As every `import jaxobs` loads
this file, at its top it imports only modules that Python's own start has imported.
"""

from __future__ import annotations

import time
from time import clock_gettime, monotonic, perf_counter, perf_counter_ns, process_time, sleep, thread_time

TYPE_CHECKING = False  # as `typing` has it, without importing that
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "NANOSECONDS", "ClockAnchor", "each_in_seconds", "monotonic", "now", "perf_counter", "perf_counter_ns",
    "process_time", "seconds", "sleep", "thread_time", "thread_time_of", "wall_now",
]  # fmt: skip

NANOSECONDS = 1_000_000_000

now = time.monotonic_ns
"""Nanoseconds of the host's monotonic clock."""

wall_now = time.time_ns
"""Nanoseconds since the Unix epoch by the host's wall clock, which may jump."""


class ClockAnchor:
    """One instant read on both clocks, to turn monotonic times into wall-clock times."""

    def __init__(self, monotonic: int, wall: int) -> None:
        self.monotonic = monotonic
        self.wall = wall

    def __iter__(self) -> Iterator[int]:
        return iter((self.monotonic, self.wall))

    @classmethod
    def read(cls) -> ClockAnchor:
        return cls(now(), wall_now())

    def follow(self) -> None:
        """Move it where the wall clock went on alone for a second: the machine was suspended, or the clock was set."""
        apart = wall_now() - self.wall_time(now())
        if abs(apart) > NANOSECONDS:
            self.wall += apart

    def wall_time(self, monotonic: int) -> int:
        """Wall-clock nanoseconds since the Unix epoch of a monotonic instant."""
        return self.wall + (monotonic - self.monotonic)

    def unix_seconds(self, monotonic: int) -> float:
        """Seconds since the Unix epoch of a monotonic instant."""
        return self.wall_time(monotonic) / NANOSECONDS


def seconds(nanoseconds: int) -> float:
    """Nanoseconds as seconds."""
    return nanoseconds / NANOSECONDS


def thread_time_of(number: int) -> float:
    """Seconds for which a thread of this process had a processor, by the number that the system knows it by.

    Its clock is numbered as MAKE_THREAD_CPUCLOCK of Linux's posix-timers.h does it. Raises OSError if it has ended.
    """
    return clock_gettime(~number << 3 | 6)


def each_in_seconds(nanoseconds: Sequence[int]) -> list[float]:
    """Each of many times in seconds, in a third of the time that as many calls of `seconds` take."""
    return [each / NANOSECONDS for each in nanoseconds]
