"""Whether the main thread is on a processor, by the accounts of the operating system, which Linux alone offers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from jaxobs.model.clock import monotonic

BEHIND = 1
"""Position in `schedstat` of the nanoseconds for which a task was ready to run and had no processor. The number before
it counts those for which it ran."""


class MainThreadClock:
    """The main thread's state and processor time, read from any thread. Each reading takes one to three µs."""

    def __init__(self) -> None:
        main = threading.main_thread()
        self._state = _opened(f"/proc/self/task/{main.native_id}/stat")
        self._accounts = _opened(f"/proc/self/task/{main.native_id}/schedstat")
        self._processor_time = _processor_time(main.ident)
        self._runnable_before, self._asked = self._runnable(), monotonic()

    def is_on_processor(self) -> bool | None:
        """Whether the main thread runs, or would if a processor were free; None where the system does not say."""
        text = _read(self._state)
        # The program's name stands in brackets before the state and may hold any character.
        return text.rpartition(b") ")[2][:1] == b"R" if text else None

    def processor_seconds(self) -> float | None:
        """Processor time of the main thread so far; None where the system does not say."""
        return None if self._processor_time is None else self._processor_time()

    def runnable_share(self) -> float | None:
        """Share of the time since the last call in which it was on a processor or ready for one; None if not known."""
        before, asked = self._runnable_before, self._asked
        self._runnable_before, self._asked = self._runnable(), monotonic()
        if before is None or self._runnable_before is None or self._asked <= asked:
            return None
        return (self._runnable_before - before) / (self._asked - asked)

    def _runnable(self) -> float | None:
        text = _read(self._accounts).split()
        return (int(text[0]) + int(text[BEHIND])) / 1e9 if len(text) > BEHIND else None

    def close(self) -> None:
        """Close the files. Every later reading is None."""
        _close(self._state)
        _close(self._accounts)
        self._state = self._accounts = self._processor_time = None


class WaitForProcessor:
    """Measures how long the thread that makes it is ready to run but has no processor."""

    def __init__(self) -> None:
        self._file = _opened("/proc/thread-self/schedstat")
        self._before = 0.0
        self.seconds()

    def seconds(self) -> float:
        """Seconds of such waiting since the last call; 0 where the system does not say."""
        text = _read(self._file).split()
        if len(text) <= BEHIND:
            return 0.0
        before, self._before = self._before, int(text[BEHIND]) / 1e9
        return self._before - before

    def close(self) -> None:
        """Close the file."""
        _close(self._file)
        self._file = None


def _processor_time(ident: int | None) -> Callable[[], float] | None:
    find = getattr(time, "pthread_getcpuclockid", None)
    if find is None or ident is None:
        return None
    with contextlib.suppress(OSError):
        number = find(ident)
        return lambda: time.clock_gettime(number)
    return None


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: int | None) -> bytes:
    if file is None:
        return b""
    try:
        return os.pread(file, 256, 0)
    except OSError:
        return b""


def _close(file: int | None) -> None:
    if file is not None:
        with contextlib.suppress(OSError):
            os.close(file)
