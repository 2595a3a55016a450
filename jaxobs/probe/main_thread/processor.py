"""Whether the main thread is on a processor, by the accounts of the operating system, which Linux alone offers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from jaxobs.flow.descriptor import above_streams, identity
from jaxobs.model.clock import monotonic

BEHIND = 1
"""Position in `schedstat` of the nanoseconds for which a task was ready to run and had no processor. The number before
it counts those for which it ran."""


class MainThreadClock:
    """The main thread's state and processor time, read from any thread. Each reading takes one to three µs."""

    def __init__(self) -> None:
        main = threading.main_thread()
        self._state = _File(f"/proc/self/task/{main.native_id}/stat")
        self._accounts = _File(f"/proc/self/task/{main.native_id}/schedstat")
        self._processor_time = _processor_time(main.ident)
        self._runnable_before, self._asked = self._runnable(), monotonic()

    def is_on_processor(self) -> bool | None:
        """Whether the main thread runs, or would if a processor were free; None where the system does not say."""
        text = self._state.read()
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
        text = self._accounts.read().split()
        return (int(text[0]) + int(text[BEHIND])) / 1e9 if len(text) > BEHIND else None

    def close(self) -> None:
        """Close the files. Every later reading is None."""
        self._state.close()
        self._accounts.close()
        self._processor_time = None


class WaitForProcessor:
    """Measures how long the thread that makes it is ready to run but has no processor."""

    def __init__(self) -> None:
        self._file = _File("/proc/thread-self/schedstat")
        self._before = 0.0
        self.seconds()

    def seconds(self) -> float:
        """Seconds of such waiting since the last call; 0 where the system does not say."""
        text = self._file.read().split()
        if len(text) <= BEHIND:
            return 0.0
        before, self._before = self._before, int(text[BEHIND]) / 1e9
        return self._before - before

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _processor_time(ident: int | None) -> Callable[[], float] | None:
    find = getattr(time, "pthread_getcpuclockid", None)
    if find is None or ident is None:
        return None
    with contextlib.suppress(OSError):
        number = find(ident)
        return lambda: time.clock_gettime(number)
    return None


class _File:
    """An open file of the system's, as long as its number still means it: a job may close what it does not know."""

    def __init__(self, path: str) -> None:
        self._number = -1
        with contextlib.suppress(Exception):  # there is none; or a guard of the job's forbids to open files
            self._number = above_streams(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        self._identity = identity(self._number)

    def read(self) -> bytes:
        """Its text now; empty where there is none."""
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
