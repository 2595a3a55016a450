"""When live arrays are counted, and how much of it at a time.

Listing them is one call that holds the interpreter lock and cannot be cut in pieces; so whether it would take too long
is known before: from about how many arrays there are, and what one has cost. Then those are counted that were followed
from when they were made. Counting is done in slices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import astuple

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import LiveArraysCounted
from jaxobs.probe.followed_arrays import FollowedArrays, NotCounted
from jaxobs.probe.jax_internals import arrays_alive
from jaxobs.probe.live_arrays import Census, list_arrays

LOCK_NANOSECONDS = 1_200_000
"""Listing may hold the interpreter lock so long: no step may be delayed by more than 2 ms, on a busy machine either."""

ARRAY_NANOSECONDS = 300.0
LEAST_ARRAY_NANOSECONDS = 200.0
TRACEBACK_NANOSECONDS = 250.0
"""What listing an array takes, and reading its traceback: 110 ns for each of 3 000, 280 to 390 ns for each of 10 000 that
no longer fit the processor's cache, and 60 to 250 ns (`benchmarks/live_array_census.py`, JAX 0.6.2 and 0.10.2). The least
is what nothing is listed on the strength of: with it 6 000 arrays are listed, which took 1.8 ms."""

LEAST_MEASURED = 500
"""A listing of fewer arrays than this says little about what one costs."""

SLICE_NANOSECONDS = 300_000
SLEEP_SECONDS = 0.001
TURN_SECONDS = 0.05
FOLLOWED_TURN_SECONDS = 0.25
"""A turn counts in slices with sleeps between, no longer than this; what is left goes on in the next turn. Followed
arrays take longer to count, and those that the job replaces meanwhile are missed."""

ATTEMPTS = 3
"""So many turns in a row try to count followed arrays before it is said that they cannot be counted."""

FIRST_INTERVAL_SECONDS = 1.0
INTERVAL_SECONDS = 10.0
SHARE = 0.0005
"""Soon again at first, while a job makes its arrays; then every ten seconds, or so seldom that all censuses take no more
than this share of a processor."""


GROUPS = 20
LINES = 10
"""What goes to the agent: the largest groups, and the lines that made the most."""


class ArrayCensus:
    """Call `turn` about once a second."""

    def __init__(self, followed: FollowedArrays | None = None) -> None:
        self.lock_nanoseconds = 0
        self._followed = followed or FollowedArrays()
        self._counts_followed = False
        self._attempts = 0
        self._census: Census | None = None
        self._lines_reason = ""
        self._next = 0.0
        self._interval = FIRST_INTERVAL_SECONDS
        self._spent = 0
        self._array_cost = ARRAY_NANOSECONDS
        self._traceback_cost = TRACEBACK_NANOSECONDS
        self._measured_for = LEAST_MEASURED

    def turn(self, stopped: Callable[[], bool]) -> Iterator[LiveArraysCounted]:
        """Go on with a census, or begin one where it is time; gives it when it is done, or why there is none."""
        if self._census is None:
            upkeep = self._followed.upkeep()
            _in_slices(lambda until: advance(upkeep, until), TURN_SECONDS, stopped)
            if time.monotonic() < self._next:
                return
            reason = self._begin()
            if reason:
                yield not_counted(reason)
                return
        census = self._census
        if census is None:
            return
        try:
            done = _in_slices(
                self._advance, FOLLOWED_TURN_SECONDS if self._counts_followed else TURN_SECONDS, stopped
            )
        except NotCounted as why:
            self._attempts += 1
            if self._attempts < ATTEMPTS:
                self._census = None
                return
            self._end()
            self._followed.refused()
            yield not_counted(f"{self._too_many()}; {why}")
            return
        if done:
            yield self._counted(census)
            self._end()

    def give_up(self) -> None:
        """Forget the census under way; the next begins when its time comes."""
        self._end()

    def _advance(self, until: int) -> bool:
        """A slice of the census under way."""
        if self._census is None:
            return True
        began, began_here = time.perf_counter_ns(), time.thread_time_ns()
        try:
            return self._census.advance(until - began)
        finally:
            took = time.thread_time_ns() - began_here
            self._spent += took
            if self._counts_followed:
                self.lock_nanoseconds = max(self.lock_nanoseconds, took)

    def _begin(self) -> str:
        """Of the listed arrays, or of the followed ones where listing would hold the lock too long; or the reason."""
        alive = arrays_alive()
        self._counts_followed = False
        if alive is None:
            return self._begin_blindly()
        expected = alive * self._cost_of_one(alive)
        with_lines = expected + alive * self._traceback_cost <= LOCK_NANOSECONDS
        if self._followed.following and not with_lines:
            self._count_followed()
            return ""
        if expected > LOCK_NANOSECONDS:
            self._end()
            # What was measured on a busy machine need not hold for ever.
            self._array_cost = max(LEAST_ARRAY_NANOSECONDS, 0.9 * self._array_cost)
            return f"{self._too_many()}; they are not followed: {self._followed.reason}"
        self._list(tracebacks=with_lines)
        return ""

    def _too_many(self) -> str:
        alive = arrays_alive() or 0
        milliseconds = alive * self._cost_of_one(alive) / 1e6
        return f"to list some {alive} arrays would hold the interpreter lock for {milliseconds:.1f} ms"

    def _count_followed(self) -> None:
        self.lock_nanoseconds = 0
        if self._attempts == 0:
            self._spent = 0
        self._lines_reason = ""
        self._counts_followed = True
        self._census = Census(self._followed.listings())

    def _begin_blindly(self) -> str:
        """Where the number of arrays cannot be asked for, what the last listing took must do."""
        if self.lock_nanoseconds > LOCK_NANOSECONDS:
            self._end()
            self.lock_nanoseconds = int(0.9 * self.lock_nanoseconds)
            return "to list the arrays has held the interpreter lock for too long"
        self._list(tracebacks=self.lock_nanoseconds < LOCK_NANOSECONDS / 4)
        return ""

    def _cost_of_one(self, alive: int) -> float:
        """Nanoseconds. What was measured for few says little about many: they need not fit the cache as well."""
        return (
            self._array_cost if alive <= 2 * self._measured_for else max(self._array_cost, ARRAY_NANOSECONDS)
        )

    def _list(self, *, tracebacks: bool) -> None:
        began, began_here = time.perf_counter_ns(), time.thread_time_ns()
        listing = list_arrays(tracebacks=tracebacks)
        took = self._spent = time.thread_time_ns() - began_here  # without what other programs took meanwhile
        self.lock_nanoseconds = time.perf_counter_ns() - began
        self._census = Census([listing])
        self._lines_reason = (
            "" if tracebacks else "so many arrays that reading the line of each takes too long"
        )
        count = len(listing.avals)
        if count >= LEAST_MEASURED:
            if tracebacks:
                self._traceback_cost = max(0.0, took / count - self._array_cost)
            else:
                self._array_cost, self._measured_for = took / count, count

    def _end(self) -> None:
        self._census = None
        self._attempts = 0
        self._next = time.monotonic() + max(self._interval, self._spent / NANOSECONDS / SHARE)
        self._interval = min(2 * self._interval, INTERVAL_SECONDS)

    def _counted(self, census: Census) -> LiveArraysCounted:
        groups, lines = tuple(map(astuple, census.groups(GROUPS))), tuple(map(astuple, census.lines(LINES)))
        return LiveArraysCounted(
            census.count, census.bytes, groups, lines,
            self._lines_reason, self.lock_nanoseconds / NANOSECONDS, "", now(),
        )  # fmt: skip


def advance(work: Iterator[None], until: int) -> bool:
    """Until `time.perf_counter_ns()` says so, or to the end; whether that was reached."""
    return all(time.perf_counter_ns() < until for _ in work)


def _in_slices(advanced: Callable[[int], bool], seconds: float, stopped: Callable[[], bool]) -> bool:
    """Slices with sleeps between, for so long at most; whether the work is done."""
    end = time.monotonic() + seconds
    while not stopped():
        if advanced(time.perf_counter_ns() + SLICE_NANOSECONDS):
            return True
        if time.monotonic() >= end:
            break
        time.sleep(SLEEP_SECONDS)
    return False


def not_counted(reason: str) -> LiveArraysCounted:
    """The event that says why there is no census."""
    return LiveArraysCounted(None, None, (), (), "", 0.0, reason, now())
