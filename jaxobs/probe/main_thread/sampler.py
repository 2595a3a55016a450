"""Samples the main thread's Python stack some times a second, from a thread with a budget of processor time.

A sample is due at a random moment, so that no loop is always met at the same line, and stands for the time since the
one before. Taking it needs the interpreter lock, so it is late where the main thread runs Python: its lateness shows
for how long the lock was held.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType

from jaxobs.model.clock import monotonic, now, seconds, thread_time
from jaxobs.model.events import MainThreadSampled
from jaxobs.plugin.guard import Guard
from jaxobs.probe.main_thread.processor import MainThreadClock, WaitForProcessor
from jaxobs.probe.main_thread.stack import Place, Stack
from jaxobs.probe.main_thread.tally import Row, Tally
from jaxobs.vocabulary.activities import PROCESSOR

BUDGET = 0.0008
"""Share of a core that sampling may take. A sample costs 0.05 to 0.2 ms, half of it for waking up
(`make benchmark NAME=host_lines`)."""

SHORTEST, LONGEST = 0.03, 1.0
"""Limits of the average seconds between samples: thirty a second where they are cheap, one on a very slow machine."""

BEFORE = "Python before it"
"""Shown in place of the call in which a line waits, where Python ran just before it: in which lines is not seen."""

PROMPT = 0.0003
"""Seconds by which a sample may be late though the interpreter lock was free: timers and waking up take 0.1 ms."""

FORCED = 0.9
"""Share of the switch interval from which on a late sample got the lock because its holder was made to release it."""

HELD = 0.8
"""Share of a sample's lateness for which the main thread must have run since the last sample to count as the holder."""

SITES_KEPT = 500
"""Most calls that are remembered as blocking."""

COSTS_AVERAGED = 10


class MainThreadSampler:
    """The sampler. `loop` returns the loop whose step is under way on the main thread, empty where there is none."""

    def __init__(
        self, step_iterator: CodeType, dispatch: CodeType, loop: Callable[[], str], log: Callable[[str], None]
    ) -> None:
        self.cpu_seconds = 0.0
        self._loop = loop
        self._guard = Guard("host_lines", "probe", log)
        self._stack = Stack(step_iterator, dispatch)
        self._tally = Tally()
        self._main = threading.main_thread().ident
        self._random = random.Random()  # noqa: S311  # not the job's own, whose numbers must stay as they are
        # No Event: a timed wait of one costs half as much again.
        self._ended = threading.Lock()
        self._ended.acquire()
        self._clock: MainThreadClock | None = None
        self._cost = 0.0002
        self._last = 0
        self._delay = 0.0
        self._blocking: set[tuple[str, str]] = set()
        self._processor_before = 0.0

    def run(self) -> None:
        clock, waited = MainThreadClock(), WaitForProcessor()
        self._clock = clock
        try:
            self._last = now()
            while self._turn(clock, waited):
                pass
        finally:
            clock.close()
            waited.close()

    def stop(self) -> None:
        """End after the sample under way; safe twice."""
        if self._ended.locked():
            self._ended.release()

    def take(self) -> list[MainThreadSampled]:
        """The samples since the last call, as one event or none."""
        clock = self._clock
        return self._guard.call(self._tally.take, None if clock is None else clock.runnable_share()) or []

    def _turn(self, clock: MainThreadClock, waited: WaitForProcessor) -> bool:
        """Sleep and take a sample. False after `stop`."""
        before = thread_time()
        pause = min(LONGEST, max(SHORTEST, self._cost / BUDGET)) * self._random.uniform(0.5, 1.5)
        late = self._sleep(pause, waited)
        if late is None:
            return False
        self._guard.call(self._sample, clock, late)
        self.cpu_seconds = thread_time()
        self._cost += (self.cpu_seconds - before - self._cost) / COSTS_AVERAGED
        return True

    def _sleep(self, pause: float, waited: WaitForProcessor) -> float | None:
        """Sleep. Returns the seconds for which another thread then still held the lock; None after `stop`."""
        waited.seconds()
        due = monotonic() + pause
        if self._ended.acquire(timeout=pause):
            self._ended.release()
            return None
        self._delay = late = monotonic() - due
        # While this thread waits for a processor it is not the lock that it waits for.
        return late if late <= PROMPT else late - waited.seconds()

    def _sample(self, clock: MainThreadClock, late: float) -> None:
        begin, self._last = self._last, now()
        spent = seconds(self._last - begin)
        held, forced = self._held(clock, late)
        on_processor = forced or clock.is_on_processor()
        place = self._place(on_processor, in_python=forced)
        if place is None:
            return
        held = held or self._has_just_let_go(place, on_processor)
        if held and not forced:
            # It ran Python for less than the switch interval, and is now in a call that releases the lock.
            place, on_processor = Place(place.line, BEFORE, PROCESSOR), True
        self._tally.add(begin, self._last, Row(self._loop(), place, bool(on_processor)), spent)

    def _has_just_let_go(self, place: Place, on_processor: bool | None) -> bool:
        """Whether the main thread has just entered a call that blocks, is still on a processor, and the sample is late.

        Where every core is taken, the sampler gets one when the main thread wakes it by releasing the lock. Calls that
        block are those in which the main thread was seen off the processor before.
        """
        site = place.line, place.waits_in
        if on_processor is False and place.waits_in and len(self._blocking) < SITES_KEPT:
            self._blocking.add(site)
        return bool(on_processor) and self._delay > PROMPT and site in self._blocking

    def _held(self, clock: MainThreadClock, late: float) -> tuple[bool, bool]:
        """Whether the main thread held the lock, and whether it was made to release it (else it did so in a call)."""
        ran = self._ran(clock)
        held = late > PROMPT and (ran is None or ran >= HELD * late)
        return held, held and late >= FORCED * sys.getswitchinterval()

    def _ran(self, clock: MainThreadClock) -> float | None:
        """Processor seconds of the main thread since the last call; None if not known. It shows who held the lock."""
        now_ran = clock.processor_seconds()
        if now_ran is None:
            return None
        before, self._processor_before = self._processor_before, now_ran
        return now_ran - before

    def _place(self, on_processor: bool | None, *, in_python: bool) -> Place | None:
        frame: FrameType | None = sys._current_frames().get(self._main or 0)  # noqa: SLF001  # documented
        if frame is None:
            return None
        try:
            return self._stack.place(frame, on_processor=on_processor, in_python=in_python)
        finally:
            del frame
