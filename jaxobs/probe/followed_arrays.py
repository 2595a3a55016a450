"""Which arrays are alive where they are too many to be listed in one go: followed from when they are made.

JAX lists its arrays in one call that holds the interpreter lock. Python's garbage collector knows them too, and new ones
in small portions: every container begins in its youngest generation, which is gone through after some 700 of them. So
what is in there when a pass begins is looked at, arrays are remembered by weak references, and a census asks those of
them that are still alive, a few at a time. What it finds is held against the number of arrays that there are: where the
two differ (a collector that is off or frozen, arrays that come and go meanwhile), there is no census.
"""

from __future__ import annotations

import gc
import math
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from jaxobs.plugin.guard import described, signal_behind
from jaxobs.probe.allowance import Allowance
from jaxobs.probe.jax_internals import array_type, is_compiling
from jaxobs.probe.live_arrays import Listing, read_arrays
from jaxobs.probe.young_arrays import all_arrays, young_arrays

SUPPORTED = sys.implementation.name == "cpython" and sys.version_info < (3, 14)
"""From 3.14 the collector has no three generations, and passes by parts (seen on 3.11, 3.12 and 3.13)."""

FOLLOW_FROM = 2_000 if sys.version_info < (3, 13) else 1_000
BEGIN_AT_MOST = 3_000
"""Following begins with so many arrays: to list them, and make their weak references, takes 0.3 to 1.5 ms, once. Fewer
are listed with their lines in 1.2 ms, whenever that is asked for: their jobs need not pay for looks. From Python 3.13 a
pass comes after 2 000 objects and no longer 700, and there must be one in between."""

LOOK_AT_MOST = 5_000
"""A look takes 35 ns an object, and 200 to 400 ns an array: none is made at more objects than this. It is some 700 at a
time, but for settings of the collector, and calls that make more before the collector gets to run (from Python 3.12)."""

STEP_BURST, STEP_SHARE = 1_500_000, 0.03
JOB_BURST, JOB_SHARE = 200_000_000, 0.0025
"""Looks may delay the job by so many nanoseconds and such a share of its time: of any step, which must not be 2 ms late,
and in the long run. 100 000 arrays made one by one take 2 s, and looking at them 20 to 40 ms."""

AGAIN_SECONDS = 600.0
"""After arrays were made too fast to be followed, it is tried again no sooner. Never after a look that took longer than
STEP_BURST: a job that replaces old objects by new ones, one by one, keeps the collector's count low, and can have a
million objects in its youngest generation. That can be found out by looking alone, once."""

PIECE = 32
"""So many arrays are asked without reading the clock: 30 to 60 µs. Of references alone eight times as many."""

PARDON, PARDON_SHARE = 64, 0.01
"""What is found may miss the number of arrays by so much: the class itself is referred to some twenty times, and other
threads go on meanwhile."""

SPARE_REFERENCES = 10_000
"""References to arrays that are gone are cleared away when there are so many more of them than arrays."""

TRIES = 5
PAUSE_SECONDS = 0.001

REFUSALS = 10
"""So many censuses in a row that came to nothing, and the job pays for no more looks: some 75 s after the first."""

SLOW = "so many objects are made that following the arrays among them would delay the job"


class NotCounted(Exception):  # noqa: N818  # nothing failed
    """Why a census of followed arrays came to nothing."""


class FollowedArrays:
    """`collecting` runs on whichever thread collects garbage; everything else belongs on one thread of the probe."""

    def __init__(self) -> None:
        self.following = False
        self.reason = "JAX has not been seen yet"
        self.look_nanoseconds = 0
        self.longest_look_nanoseconds = 0
        self._kind: type | None = None
        self._hook: Callable[[str, dict[str, Any]], None] | None = None
        self._seen: deque[weakref.ref[Any]] = deque()
        self._passes = 0
        self._moving = False
        self._beginning = False
        self._signals: list[int] = []
        self._refused = 0
        self._not_before = 0.0
        self._compiling: object = None
        self._of_step = Allowance(STEP_BURST, STEP_SHARE)
        self._of_job = Allowance(JOB_BURST, JOB_SHARE)

    def start(self, guard: Callable[[Any], Any]) -> None:
        """JAX is imported. Arrays that exist by now are listed at once, however many: no step runs in here."""
        self._kind = array_type() if SUPPORTED else None
        if self._kind is None:
            self.reason = "this Python's garbage collector does not show new arrays in small portions"
            return
        self.reason = "they were made faster than they could be looked at"
        self._guarded_look = guard(self._look)
        self._hook = self.collecting
        gc.callbacks.insert(0, self._hook)  # some take JAX's own out if it is the last
        if sys.getrefcount(self._kind) > BEGIN_AT_MOST:
            self._begin_here()

    def stop(self) -> None:
        self._end("it has ended")
        # Not `remove`, which asks the `__eq__` of others' callbacks.
        position = next((place for place, found in enumerate(gc.callbacks) if found is self._hook), None)
        if position is not None:
            del gc.callbacks[position]
        self._seen.clear()

    def collecting(self, phase: str, info: dict[str, Any]) -> None:  # noqa: ARG002  # gc passes both
        """A callback of the garbage collector's. Whatever leaves it would be printed, and lost.

        Every job pays for this, following or not: nothing is called but where there is something to look at.
        """
        try:
            self._moving = phase == "start"
            if self._moving:
                self._passes += 1
                if self.following or FOLLOW_FROM <= sys.getrefcount(self._kind) <= BEGIN_AT_MOST:
                    self._guarded_look()
        except RecursionError:  # the job's own depth: nothing more can be called here
            self.following = False
            self.reason = "the collector ran where the job's recursion was too deep to look at them"
        except BaseException as error:  # noqa: BLE001
            number = signal_behind(error)
            default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
            if number is None and default and isinstance(error, KeyboardInterrupt):
                number = signal.SIGINT
            if number is not None:
                self._signals.append(number)  # raised again by `upkeep`
            else:
                self._end(f"looking for them failed: {described(error)}"[:200])

    def refused(self) -> None:
        """A census of them was not to be had, after all attempts. Following that brings nothing ends."""
        self._refused += 1
        if self._refused >= REFUSALS:
            self._end(f"{self._refused} censuses in a row came to nothing")

    def upkeep(self) -> Iterator[None]:
        """What is to be done now and then, in pieces."""
        while self._signals:
            number, main = self._signals.pop(), threading.main_thread().ident
            if callable(signal.getsignal(number)) and main is not None:
                signal.pthread_kill(main, number)  # to the main thread, which may wait for something by now
        if self._kind is None:
            return
        alive = sys.getrefcount(self._kind)
        if self.following:
            self.following = alive >= FOLLOW_FROM // 2
            if len(self._seen) > 2 * alive + SPARE_REFERENCES:
                for piece in self._pieces(len(self._seen), 8 * PIECE):
                    self._seen.extend(reference for reference in piece if reference() is not None)
                    yield
            return
        while self._seen:
            for _ in self._pieces(min(len(self._seen), 8 * PIECE), PIECE):
                pass
            yield
        if alive > BEGIN_AT_MOST and time.monotonic() >= self._not_before and self._compiles():
            self._begin_here()

    def listings(self) -> Iterator[Listing]:
        """The arrays that are there at the first `next`, in pieces. Raises NotCounted where that is not all of them."""
        alive, seen, young = self._now()
        expected, found = alive, 0
        for piece in chain(self._pieces(seen, PIECE), _split(young, PIECE)):
            listing, there = read_arrays(piece)
            found += len(there)
            if seen > 0:
                self._seen.extend(there)
                seen -= len(piece)
            yield listing
        if not self.following:
            raise NotCounted(self.reason)
        missed = expected - found
        if abs(missed) > PARDON + PARDON_SHARE * expected:
            raise NotCounted(
                f"{max(0, missed)} of some {expected} arrays were gone before they were counted, or not seen"
            )

    def _look(self) -> None:
        kind = self._kind
        if kind is None:
            return
        if not self.following:
            few = FOLLOW_FROM <= sys.getrefcount(kind) <= BEGIN_AT_MOST
            if few and not self._seen and not self._beginning and time.monotonic() >= self._not_before:
                self._seen.extend(map(weakref.ref, all_arrays()))
                self._follow()
            return
        if gc.get_count()[0] > LOOK_AT_MOST:
            self._end("Python's garbage collector runs too seldom to see them in small portions", 0.0)
            return
        began = time.thread_time_ns()
        young_arrays(kind, weakref.ref, self._seen.extend)
        took = time.thread_time_ns() - began
        self.look_nanoseconds += took
        self.longest_look_nanoseconds = max(self.longest_look_nanoseconds, took)
        in_step, in_job = self._of_step.spend(took), self._of_job.spend(took)
        if not (in_step and in_job):
            self._end(SLOW, math.inf if took > STEP_BURST else AGAIN_SECONDS)

    def _follow(self) -> None:
        self._of_step, self._of_job = Allowance(STEP_BURST, STEP_SHARE), Allowance(JOB_BURST, JOB_SHARE)
        self.reason = ""
        self._refused = 0
        self.following = True

    def _end(self, reason: str, again: float = AGAIN_SECONDS) -> None:
        self.following = False
        self.reason = reason
        self._not_before = time.monotonic() + again

    def _begin_here(self) -> None:
        """Outside the collector: the arrays that it will show later are left out. None is held beyond the one call."""
        kind = self._kind
        if kind is None or self.following:
            return
        self._beginning = True
        try:
            self._follow()  # passes from now on add what they see
            for _ in range(TRIES):
                passes, moving = self._passes, self._moving
                there: list[weakref.ref[Any]] = []
                young: list[weakref.ref[Any]] = []
                listing = partial(there.extend, map(weakref.ref, all_arrays()))
                young_arrays(kind, weakref.ref, young.extend, (self._seen.clear, listing))
                if passes == self._passes and not moving:
                    shown_later = set(map(id, young))  # there is one such reference to an array
                    self._seen.extend(found for found in there if id(found) not in shown_later)
                    return
                time.sleep(PAUSE_SECONDS)
            self._end("Python's garbage collector is at work all the time", 0.0)
        finally:
            self._beginning = False

    def _compiles(self) -> bool:
        """Whether the main thread has been in one call of XLA's compiler since the last time this was asked.

        It does not hold the interpreter lock in there, and will not for a while.
        """
        frame = sys._current_frames().get(  # noqa: SLF001  # documented, for all its name
            threading.main_thread().ident or 0
        )
        now = (id(frame), frame.f_lasti) if frame is not None and is_compiling(frame) else None
        before, self._compiling = self._compiling, now
        return now is not None and now == before

    def _now(self) -> tuple[int, int, list[weakref.ref[Any]]]:
        """How many arrays there are, how many of what was seen count, and the arrays too young to have been seen."""
        kind = self._kind
        if kind is None or not self.following:
            raise NotCounted(self.reason)
        for _ in range(TRIES):
            passes = self._passes
            if gc.get_count()[0] > LOOK_AT_MOST:
                raise NotCounted(
                    "Python's garbage collector has too many objects that it has not gone through yet"
                )
            if not self._moving:
                began = time.thread_time_ns()
                young: list[weakref.ref[Any]] = []
                young_arrays(kind, weakref.ref, young.extend)
                alive, seen = sys.getrefcount(kind), len(self._seen)
                if time.thread_time_ns() - began > STEP_BURST:
                    self._end(SLOW, math.inf)
                    raise NotCounted(SLOW)
                if passes == self._passes:
                    return alive, seen, young
            time.sleep(PAUSE_SECONDS)
        raise NotCounted("Python's garbage collector is at work all the time")

    def _pieces(self, count: int, size: int) -> Iterator[list[weakref.ref[Any]]]:
        """The oldest `count` references, taken out."""
        while count > 0:
            yield [self._seen.popleft() for _ in range(min(count, size))]
            count -= size


def _split(references: list[weakref.ref[Any]], size: int) -> Iterable[list[weakref.ref[Any]]]:
    return (references[start : start + size] for start in range(0, len(references), size))
