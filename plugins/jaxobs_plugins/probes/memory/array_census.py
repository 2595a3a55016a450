"""Decides when live arrays are listed, and counts the listed ones in slices.

Listing is one call that holds the interpreter lock and cannot be split. Its duration is therefore estimated beforehand,
from the approximate number of arrays and the measured cost of one. Where it would take too long, the arrays are listed
only while the job stands still anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple

from jaxobs.jax_compat.arrays import Census, arrays_alive, list_arrays
from jaxobs.model.clock import NANOSECONDS, monotonic, now, perf_counter_ns, sleep, thread_time_ns
from jaxobs.model.events import LiveArraysCounted

LOCK_NANOSECONDS = 1_200_000
"""Longest that listing may hold the interpreter lock: no step may be delayed by more
than 2 ms, on a busy machine too."""

STILL_NANOSECONDS = 50_000_000
"""Longest that it may hold the lock while the job stands still, when only its other threads wait. Enough for some
100 000 arrays, for which it took up to three times as long as estimated (`benchmarks/costs/live_array_census.py`)."""

ARRAY_NANOSECONDS = 300.0
LEAST_ARRAY_NANOSECONDS = 200.0
TRACEBACK_NANOSECONDS = 250.0
"""Assumed cost of listing an array, the least that the assumption falls to, and the
cost of reading an array's traceback.

Measured (`benchmarks/costs/live_array_census.py`, JAX 0.6.2 and 0.10.2): listing takes 110 ns for each of 3 000 arrays
and 280 to 390 ns for each of 10 000, which no longer fit the processor's cache; a traceback takes 60 to 250 ns. With the
least, 6 000 arrays are listed, which took 1.8 ms."""

LEAST_MEASURED = 500
"""Fewest arrays in a listing from which the cost of one is taken."""

SLICE_NANOSECONDS = 300_000
SLEEP_SECONDS = 0.001
TURN_SECONDS = 0.05
"""A turn counts in slices with sleeps between them for no longer than `TURN_SECONDS`, and the next turn continues."""

FIRST_INTERVAL_SECONDS = 1.0
INTERVAL_SECONDS = 10.0
SHARE = 0.0005
"""Censuses follow each other at the first interval while a job makes its arrays, and
the pause doubles up to the second.

It is longer where all censuses would otherwise take more than `SHARE` of a processor."""


GROUPS = 20
LINES = 10
"""The numbers of the largest groups, and of the lines that made the most, that are sent to the agent."""


class ArrayCensus:
    """Counts live arrays; call `turn` about once a second. `stands_still`: whether the job's steps wait anyway."""

    def __init__(self, stands_still: Callable[[], bool] = lambda: False) -> None:
        self.lock_nanoseconds = 0
        self._stands_still = stands_still
        self._census: Census | None = None
        self._lines_reason = ""
        self._next = 0.0
        self._interval = FIRST_INTERVAL_SECONDS
        self._spent = 0
        self._array_cost = ARRAY_NANOSECONDS
        self._traceback_cost = TRACEBACK_NANOSECONDS
        self._measured_for = LEAST_MEASURED
        self._reason = ""

    def turn(self, stopped: Callable[[], bool]) -> Iterator[LiveArraysCounted]:
        """Continue the census under way, or begin one when it is due. Yields the result, or why none was begun."""
        if self._census is None and monotonic() >= self._next:
            reason = self._begin()
            if reason and reason != self._reason:
                yield not_counted(reason)
            self._reason = reason
        if self._census is not None and self._count(stopped):
            yield self._counted(self._census)
            self.end()

    def end(self) -> None:
        """Drop the census under way, counted or not; the next one begins when it is due."""
        self._census = None
        self._next = monotonic() + max(self._interval, self._spent / NANOSECONDS / SHARE)
        self._interval = min(2 * self._interval, INTERVAL_SECONDS)

    def _count(self, stopped: Callable[[], bool]) -> bool:
        """Count for a turn, in slices with sleeps between them. Returns whether the census is complete."""
        end = monotonic() + TURN_SECONDS
        while not stopped():
            if self._advance():
                return True
            if monotonic() >= end:
                break
            sleep(SLEEP_SECONDS)
        return False

    def _advance(self) -> bool:
        """Count for one slice. Returns whether the census is complete."""
        assert self._census is not None
        began = thread_time_ns()
        try:
            return self._census.advance(SLICE_NANOSECONDS)
        finally:
            self._spent += thread_time_ns() - began

    def _begin(self) -> str:
        """List the arrays, or return why they are not listed now; the next turn then tries again."""
        alive = arrays_alive()
        if alive is None:
            return self._begin_blindly()
        still = self._stands_still()
        most = STILL_NANOSECONDS if still else LOCK_NANOSECONDS
        expected = alive * self._cost_of_one(alive)
        if expected > most:
            # A cost measured on a busy machine must not last for ever.
            self._array_cost = max(LEAST_ARRAY_NANOSECONDS, 0.9 * self._array_cost)
            return (
                f"too many arrays to list while steps run: {_rounded(alive)} would hold the interpreter lock for about "
                f"{expected / 1e6:.2g} ms. They are listed during a compile or a checkpoint that takes some seconds"
            )
        self._list(tracebacks=expected + alive * self._traceback_cost <= most)
        return ""

    def _begin_blindly(self) -> str:
        """Begin where the number of arrays is not available: the duration of the last listing decides instead."""
        if self.lock_nanoseconds > LOCK_NANOSECONDS:
            self.end()
            self.lock_nanoseconds = int(0.9 * self.lock_nanoseconds)
            return "to list the arrays has held the interpreter lock for too long"
        self._list(tracebacks=self.lock_nanoseconds < LOCK_NANOSECONDS / 4)
        return ""

    def _cost_of_one(self, alive: int) -> float:
        """The expected nanoseconds to list one of `alive` arrays.

        A cost measured with few arrays says little about many, which may not fit the processor's cache.
        """
        return (
            self._array_cost if alive <= 2 * self._measured_for else max(self._array_cost, ARRAY_NANOSECONDS)
        )

    def _list(self, *, tracebacks: bool) -> None:
        began, began_here = perf_counter_ns(), thread_time_ns()
        listing = list_arrays(tracebacks=tracebacks)
        took = self._spent = thread_time_ns() - began_here  # excludes the time of other programs
        self.lock_nanoseconds = perf_counter_ns() - began
        self._census = Census(listing)
        self._lines_reason = (
            "" if tracebacks else "so many arrays that reading the line of each takes too long"
        )
        count = len(listing.avals)
        if count >= LEAST_MEASURED:
            if tracebacks:
                self._traceback_cost = max(0.0, took / count - self._array_cost)
            else:
                self._array_cost, self._measured_for = took / count, count

    def _counted(self, census: Census) -> LiveArraysCounted:
        groups, lines = tuple(map(astuple, census.groups(GROUPS))), tuple(map(astuple, census.lines(LINES)))
        return LiveArraysCounted(
            census.count, census.bytes, groups, lines,
            self._lines_reason, self.lock_nanoseconds / NANOSECONDS, "", now(),
        )  # fmt: skip


def not_counted(reason: str) -> LiveArraysCounted:
    """The event that says why there is no census."""
    return LiveArraysCounted(None, None, (), (), "", 0.0, reason, now())


def _rounded(count: int) -> str:
    """A number of arrays with two significant digits: a reason that changes is sent again, and arrays come and go."""
    return f"some {float(f'{count:.2g}'):.0f}"
