"""Samples the main thread's Python stack some times a second, from a thread with a budget of processor time.

Where nothing gets on any more the stacks of all threads are taken once, when the agent asks for them.

A sample is due at a random moment, so that no loop is always met at the same line, and stands for the time since the
one before. Taking it needs the interpreter lock, so a sample that is due while the main thread runs Python is late: it
meets the line at which Python was made to release the lock, or else the call after it, in which it released the lock
itself.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from jaxobs.flow.pipe import above_streams, identity
from jaxobs.model.clock import monotonic, now, seconds, thread_time
from jaxobs.model.events import MainThreadSampled, StacksTaken
from jaxobs.plugin.frames import running_python, stack_of
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.threads import Flag, is_ours
from jaxobs.probe.stack import MAX_FRAMES, Describer, Place, line_of
from jaxobs.vocabulary.activities import PROCESSOR

BUDGET = 0.0009
"""Share of a core that sampling may take. A sample costs 0.05 to 0.3 ms, half of it for waking up
(`make untrue ARGS="--only parts"`)."""

MIN_PAUSE, MAX_PAUSE = 0.03, 1.0
"""Limits of the average seconds between samples: thirty a second where they are cheap, one on a very slow machine."""

BEFORE = "Python code before this line"
"""Shown in place of the call in which a line waits, where Python ran just before it: in which lines is not seen."""

PROMPT = 0.0003
"""Seconds by which a sample may be late though the interpreter lock was free: timers and waking up take 0.1 ms."""

COSTS_AVERAGED = 10

MAX_ROWS = 100
"""Rows of an event. A second has fewer samples than that, but the sender may have been held up."""

MAX_REMAINDER = 10.0
"""Seconds on a processor that are carried over to later samples: those of one second may be few and show none."""

MAX_CALLS = 500
"""Calls that are remembered as blocking."""

MAX_THREADS = 16
"""Threads whose stacks are taken, the loop's and the main thread first. Of the dozens that a loader has more than a few
tell nothing new, and a record has its limit."""


class Row(NamedTuple):
    """The key by which the seconds of samples are added up."""

    loop: str
    place: Place
    on_processor: bool


class Tally:
    """Adds up the samples of about a second. The sampling thread adds to it, the sender takes from it.

    How long the thread was on a processor is known exactly, as the system counts it. Samples are scaled to agree with
    that, because they are biased: a sampler short of a processor gets one most easily when the thread leaves its own.
    """

    def __init__(self) -> None:
        self._rows: dict[Row, tuple[float, int]] = {}
        self._start = self._end = 0
        self._remainder = 0.0

    def add(self, begin: int, end: int, row: Row) -> None:
        """Add a sample that was taken at `end` and stands for the time since `begin`."""
        rows = self._rows
        if row not in rows and len(rows) >= MAX_ROWS:
            return
        before, samples = rows.get(row, (0.0, 0))
        rows[row] = before + seconds(end - begin), samples + 1
        self._start, self._end = self._start or begin, end

    def take(self, ran: float | None) -> list[MainThreadSampled]:
        """What was added since the last call, as one event or none.

        `ran`: the share of that time in which the thread was on a processor or ready for one; None: not known.
        """
        rows, self._rows = self._rows, {}
        rows = dict(rows)  # the other thread may be about to add to the one that it has read
        start, self._start = self._start, 0
        if not rows:
            return []
        factors = {True: 1.0, False: 1.0} if ran is None else self._factors(rows, ran)
        shown = tuple(
            (row.loop, *row.place[:3], factors[row.on_processor] * spent, samples)
            for row, (spent, samples) in rows.items()
        )
        callers = tuple(row.place.callers for row in rows)
        return [MainThreadSampled(start, self._end, shown, callers=callers)]

    def _factors(self, rows: dict[Row, tuple[float, int]], ran: float) -> dict[bool, float]:
        """Factors for the samples on a processor (True) and the others (False) that leave their total as it is."""
        whole = sum(spent for spent, _ in rows.values())
        running = sum(spent for row, (spent, _) in rows.items() if row.on_processor)
        remainder = self._remainder + min(1.0, max(0.0, ran)) * whole
        remainder = min(MAX_REMAINDER, max(-MAX_REMAINDER, remainder))
        shown = min(whole, max(0.0, remainder)) if 0.0 < running < whole else running
        self._remainder = remainder - shown
        waiting = whole - running
        return {
            True: shown / running if running > 0 else 1.0,
            False: (whole - shown) / waiting if waiting > 0 else 1.0,
        }


class HostLines:
    """The sampler of the main thread. `loop` returns the loop whose step is under way on it, empty outside steps.

    It returns None while another thread trains: samples of the main thread would say nothing of that loop.
    """

    def __init__(
        self, describer: Describer, loop: Callable[[], str | None], log: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._guard = Guard("host_lines", "probe", log)
        self._describer = describer
        self._tally = Tally()
        self._main = threading.main_thread().ident
        self._random = random.Random()  # noqa: S311  # not the job's own, whose numbers must stay as they are
        self._ended = Flag()
        self._account: ThreadAccount | None = None
        self._cost = 0.0002
        self._last = 0
        self._ran_before = 0.0
        self._blocking: set[tuple[str, str]] = set()
        """Calls in which the main thread was seen to wait. A late sample that meets one came after Python had ended."""
        self._taken = 0.0, 0.0

    def run(self) -> None:
        """Take samples until `stop`."""
        main = ThreadAccount(f"/proc/self/task/{threading.main_thread().native_id}")
        own = ThreadAccount("/proc/thread-self")
        self._account = main
        try:
            self._last = now()
            while self._turn(main, own):
                pass
        finally:
            main.close()
            own.close()

    def stop(self) -> None:
        """End after the sample under way; safe twice."""
        self._ended.set()

    def take(self) -> list[MainThreadSampled]:
        """The samples since the last call, as one event or none. On the sender's thread."""
        told = self._guard.call(lambda: self._tally.take(self._runnable_share())) or []
        return [event._replace(thread=self._main or 0) for event in told]

    def _runnable_share(self) -> float | None:
        """Share of the time since the last call in which the main thread was on a processor or ready for one."""
        runnable = 0.0 if self._account is None else sum(self._account.times())
        (before, asked), self._taken = self._taken, (runnable, monotonic())
        if not before or not runnable or self._taken[1] <= asked:
            return None
        return (runnable - before) / (self._taken[1] - asked)

    def _turn(self, main: ThreadAccount, own: ThreadAccount) -> bool:
        """Sleep and take a sample. False after `stop`."""
        before, (_, delayed) = thread_time(), own.times()
        pause = min(MAX_PAUSE, max(MIN_PAUSE, self._cost / BUDGET)) * self._random.uniform(0.5, 1.5)
        due = monotonic() + pause
        if self._ended.wait(pause):
            return False
        late = locked = monotonic() - due
        if late > PROMPT:  # the time in which this thread waited for a processor says nothing of the lock
            locked -= own.times()[1] - delayed
        self._guard.call(self._sample, main, late, locked)
        self._cost += (thread_time() - before - self._cost) / COSTS_AVERAGED
        return True

    def _sample(self, main: ThreadAccount, late: float, locked: float) -> None:
        """Take a sample `late` seconds after it was due, for `locked` of which others held the interpreter lock."""
        begin, self._last = self._last, now()
        loop = self._loop()
        ran, _ = main.times()
        ran_since, self._ran_before = ran - self._ran_before, ran
        # Where it ran for less than that, a third thread held the lock.
        held = locked > PROMPT and (ran_since > locked / 2 or ran == 0)
        on_processor = held or main.is_on_processor()
        frames = stack_of(self._main, MAX_FRAMES)
        if not frames or loop is None:
            return
        place = self._describer.place(frames, on_processor=on_processor)
        call = place.line, place.waits_in
        by_itself = held and locked < sys.getswitchinterval()  # so soon nobody makes it release the lock
        if by_itself or (call in self._blocking and on_processor and late > PROMPT):
            place = place._replace(waits_in=BEFORE, activity=PROCESSOR)
        elif held:
            place = self._describer.place(frames, on_processor=True, in_python=True)
        elif on_processor is False and late <= PROMPT and len(self._blocking) < MAX_CALLS:
            self._blocking.add(call)
        self._tally.add(begin, self._last, Row(loop, place, bool(on_processor)))


def stacks_taken(describer: Describer, thread: int) -> StacksTaken:
    """Where each thread of the job is that runs Python, the one of that number first.

    No lock is taken, as one that hangs may hold it, and nothing of the user's is called. A thread of which something
    cannot be told is left out.
    """
    listed: dict[int, Any] = dict(vars(threading).get("_active") or {})
    main = threading.main_thread().ident
    numbers = [number for number in running_python() if not is_ours(number)]
    rows = []
    for number in sorted(numbers, key=lambda number: (number != thread, number != main))[:MAX_THREADS]:
        with contextlib.suppress(Exception):
            known = vars(listed[number]) if number in listed else {}
            rows.append(_stack(describer, number, known.get("_name"), known.get("_native_id")))
    return StacksTaken(tuple(filter(None, rows)), now())


def _stack(
    describer: Describer, number: int, name: object, native: object
) -> tuple[int, str, str, str, str, tuple[str, ...]] | None:
    """A row of `StacksTaken`; None if the thread has ended."""
    frames = stack_of(number, MAX_FRAMES)
    if not frames:
        return None
    account = ThreadAccount(f"/proc/self/task/{native or 0}")
    place = describer.place(frames, on_processor=account.is_on_processor())
    account.close()
    known = name if type(name) is str and name else f"thread {number}"
    return number, known, *place[:3], tuple(map(line_of, frames))


class ThreadAccount:
    """A thread's state and processor time by the files that Linux keeps of it. Each reading takes one to three µs."""

    def __init__(self, folder: str) -> None:
        self._state, self._times = _File(f"{folder}/stat"), _File(f"{folder}/schedstat")

    def is_on_processor(self) -> bool | None:
        """Whether it runs, or would if a processor were free; None if the system does not say."""
        text = self._state.read()
        # The program's name stands in brackets before the state and may hold any character.
        return text.rpartition(b") ")[2][:1] == b"R" if text else None

    def times(self) -> tuple[float, float]:
        """Seconds for which it was on a processor, and was ready to run and had none; 0 if the system does not say."""
        text = self._times.read().split()
        return (int(text[0]) / 1e9, int(text[1]) / 1e9) if len(text) > 1 else (0.0, 0.0)

    def close(self) -> None:
        """Close the files; nothing is known any more then."""
        self._state.close()
        self._times.close()


class _File:
    """An open file of the system's, as long as its number still means it: a job may close what it does not know."""

    def __init__(self, path: str) -> None:
        self._number = -1
        with contextlib.suppress(Exception):  # there is none; or a guard of the job's forbids to open files
            self._number = above_streams(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._identity = identity(self._number)

    def read(self) -> bytes:
        """Its text now; empty if there is none."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                return os.pread(self._number, 4096, 0)
        return b""

    def close(self) -> None:
        if self._is_ours():
            os.close(self._number)
        self._number = -1

    def _is_ours(self) -> bool:
        return self._number >= 0 and identity(self._number) == self._identity
