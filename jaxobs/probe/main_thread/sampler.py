"""Samples the main thread's Python stack some times a second, from a thread with a budget of processor time.

A sample is due at a random moment, so that no loop is always met at the same line, and stands for the time since the
one before. Taking it needs the interpreter lock, so it is late where the main thread runs Python: its lateness shows
for how long the lock was held. A sample due in the last milliseconds of a stretch of Python meets the call after it; the
line that ran is known where an earlier sample met the stretch itself and was followed to that call.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import CodeType

from jaxobs.model.clock import monotonic, now, seconds, thread_time
from jaxobs.model.events import MainThreadSampled
from jaxobs.plugin.frames import stack_of
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.threads import Flag
from jaxobs.probe.main_thread.processor import MainThreadClock, WaitForProcessor
from jaxobs.probe.main_thread.stack import DEEPEST, Place, Stack
from jaxobs.probe.main_thread.tally import Row, Tally
from jaxobs.vocabulary.activities import PROCESSOR

BUDGET = 0.0009
"""Share of a core that sampling may take. A sample costs 0.05 to 0.3 ms, half of it for waking up
(`make benchmark NAME=host_lines`)."""

SHORTEST, LONGEST = 0.03, 1.0
"""Limits of the average seconds between samples: thirty a second where they are cheap, one on a very slow machine."""

BEFORE = "Python before it"
"""Shown in place of the call in which a line waits, where Python ran just before it: in which lines is not seen."""

PROMPT = 0.0003
"""Seconds by which a sample may be late though the interpreter lock was free: timers and waking up take 0.1 ms."""

FORCED = 0.98
"""Share of the switch interval from which on a late sample got the lock because its holder was made to release it."""

FOR_THE_LOCK = 0.5
"""Share of the switch interval for which such a sample must have waited for the lock, and not for a processor."""

HELD = 0.8
"""Share of a sample's lateness for which the main thread must have run since the last sample to count as the holder."""

SITES_KEPT = 500
"""Most calls that are remembered as blocking, or as the end of a stretch of Python."""

LOOKS = 2
"""Looks that follow a sample within a stretch of Python, each a switch interval after the one before at most. Of a longer
stretch few samples fall into its last interval, and those alone are told at the call after it."""

FOLLOWED, OF_OTHERS = 5, 0.1
"""Samples at a line of Python that are followed, and the share of further ones that is."""

MOMENT = 0.00005
"""Seconds until a look, in which the main thread gets the lock back."""

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
        self._ended = Flag()
        self._clock: MainThreadClock | None = None
        self._cost = 0.0002
        self._last = 0
        self._delay = 0.0
        self._blocking: set[tuple[str, str]] = set()
        self._python_before: dict[tuple[str, str], Place] = {}
        self._followed: Counter[Place] = Counter()
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
        self._ended.set()

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
        if (python := self._guard.call(self._sample, clock, late)) is not None:
            self._guard.call(self._follow, waited, python)
        self.cpu_seconds = thread_time()
        self._cost += (self.cpu_seconds - before - self._cost) / COSTS_AVERAGED
        return True

    def _sleep(self, pause: float, waited: WaitForProcessor) -> float | None:
        """Sleep. Returns the seconds for which another thread then still held the lock; None after `stop`."""
        waited.seconds()
        due = monotonic() + pause
        if self._ended.wait(pause):
            return None
        self._delay = late = monotonic() - due
        # While this thread waits for a processor it is not the lock that it waits for.
        return late if late <= PROMPT else late - waited.seconds()

    def _sample(self, clock: MainThreadClock, late: float) -> Place | None:
        """Take a sample. Returns its place where the main thread was met in a stretch of Python."""
        begin, self._last = self._last, now()
        spent = seconds(self._last - begin)
        met = self._meet(clock, late)
        if met is None:
            return None
        place, on_processor, forced = met
        self._tally.add(begin, self._last, Row(self._loop(), place, on_processor), spent)
        return place if forced else None

    def _meet(self, clock: MainThreadClock, late: float) -> tuple[Place, bool, bool] | None:
        """Where the main thread was when the sample was due, whether on a processor, and whether in Python for sure."""
        held, prompt = self._held(clock, late), self._delay <= PROMPT
        if held and self._is_forced(late):
            place = self._place(True, in_python=True)
            return None if place is None else (place, True, True)
        on_processor = clock.is_on_processor()
        place = self._place(on_processor)
        if place is None:
            return None
        site = place.line, place.waits_in
        if held or (not prompt and on_processor and site in self._blocking):
            # It ran Python for less than the switch interval, and is now in a call that releases the lock.
            # Or, where every core is taken, this thread got one as the main thread woke it by releasing the lock.
            return self._python_before.get(site) or Place(place.line, BEFORE, PROCESSOR), True, False
        if on_processor is False and place.waits_in and prompt and len(self._blocking) < SITES_KEPT:
            self._blocking.add(site)
        return place, bool(on_processor), False

    def _is_forced(self, late: float) -> bool:
        """Whether the main thread was made to release the lock where it is; else it is in a call that releases it.

        A late sample alone does not say so: it may have waited for a processor until the call came. Calls that block
        are those in which the main thread was seen off the processor before.
        """
        interval = sys.getswitchinterval()
        overdue = self._delay >= FORCED * interval and late >= FOR_THE_LOCK * interval
        return overdue and self._call() not in self._blocking

    def _follow(self, waited: WaitForProcessor, python: Place) -> None:
        """Look on until the main thread leaves the stretch of Python, and remember the call in which it is then."""
        if len(self._followed) >= SITES_KEPT:
            self._followed.clear()
        self._followed[python] += 1
        if self._followed[python] > FOLLOWED and self._random.random() > OF_OTHERS:
            return
        for _ in range(LOOKS):
            late = self._sleep(MOMENT, waited)
            if late is None:
                return
            if not self._is_forced(late):
                if len(self._python_before) >= SITES_KEPT:
                    self._python_before.clear()
                if (call := self._call()) is not None:
                    self._python_before[call] = python
                return
            python = self._place(True, in_python=True) or python

    def _held(self, clock: MainThreadClock, late: float) -> bool:
        """Whether the main thread held the lock while the sample was late."""
        ran = self._ran(clock)
        return late > PROMPT and (ran is None or ran >= HELD * late)

    def _ran(self, clock: MainThreadClock) -> float | None:
        """Processor seconds of the main thread since the last call; None if not known. It shows who held the lock."""
        now_ran = clock.processor_seconds()
        if now_ran is None:
            return None
        before, self._processor_before = self._processor_before, now_ran
        return now_ran - before

    def _place(self, on_processor: bool | None, *, in_python: bool = False) -> Place | None:
        frames = stack_of(self._main, DEEPEST)
        return self._stack.place(frames, on_processor=on_processor, in_python=in_python) if frames else None

    def _call(self) -> tuple[str, str] | None:
        frames = stack_of(self._main, DEEPEST)
        return self._stack.call(frames) if frames else None
