"""Estimates the memory that a recording profiler fills, the only sign before `stop()` of how many events it has.

JAX's profiler does not limit the events of a host, and its options have no limit that a CPU heeds. An event on a CPU is
held in 120 to 270 bytes of malloc's memory until `stop()`, and fills 21 to 58 bytes of the trace. The growth of what
the process has allocated is therefore an upper bound of the events' memory; it includes the job's own allocations, of
arrays below 32 MiB for example (larger ones are mapped, and not counted here). Resident memory is no measure, because
events go into memory that was freed before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from jaxobs.model.clock import thread_time

HELD_A_TRACED_BYTE = 5.0
"""Bytes of memory for each byte of trace: measured 4.7 for an operation in a loop, 5.6 for a tiny call."""

FORGETTING = 0.9
"""The job's own allocations during a window are remembered; this factor of them is kept
with each window that follows."""

SLOW = 0.005
"""Seconds of processor time after which malloc is not queried again. To answer it walks its lists of free blocks, which
took 0.03 to 0.5 ms in all jobs tried, and threads of the job wait meanwhile."""


class Allocated:
    """Called, returns the bytes that malloc has allocated; None where malloc is slow or not glibc's (2.33 or newer)."""

    def __init__(self) -> None:
        self._ask = _mallinfo2()
        self.seconds = 0.0
        """Processor time of all queries; threads of the job may have waited as long for malloc."""

    def __call__(self) -> int | None:
        if self._ask is None:
            return None
        began = thread_time()
        held = self._ask()
        took = thread_time() - began
        self.seconds += took
        if took > SLOW:
            self._ask = None
        return held


class EventMemory:
    """Estimates the memory of a recording's events.

    Call `begin` before the recording, `grown` during it and at its end, and `learn` with the size of its trace.
    """

    def __init__(self, allocated: Callable[[], int | None]) -> None:
        self._allocated = allocated
        self._began: int | None = None
        self.tells = False
        """Whether the last query had an answer; there is none any more after malloc has been slow once."""
        self._more = 0
        self._jobs_own = 0.0

    def begin(self) -> None:
        self._began, self._more = self._now(), 0

    def again(self) -> None:
        """Raise the baseline before the recording to what is allocated now: a job allocates and frees in each step."""
        now = self._now()
        if now is not None and self._began is not None:
            self._began = max(self._began, now)

    def grown(self) -> int:
        """The growth in bytes since `begin`, less what the job is known to allocate by itself; 0 where unknown."""
        now = self._now()
        if now is None or self._began is None:
            return 0
        self._more = now - self._began
        return max(0, int(self._more - self._jobs_own))

    def _now(self) -> int | None:
        now = self._allocated()
        self.tells = now is not None
        return now

    def learn(self, traced: int) -> None:
        """Learn the job's own allocations: the last growth less the events' memory, by a trace of `traced` bytes."""
        self._jobs_own = max(self._more - HELD_A_TRACED_BYTE * traced, FORGETTING * self._jobs_own, 0.0)


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h: ten fields of type size_t."""

    _fields_ = [  # ctypes reads a list
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _mallinfo2() -> Callable[[], int] | None:
    """A function that returns the bytes in use in all of glibc's arenas, and releases the interpreter lock meanwhile.

    None where the C library has no such function.
    """
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # no such function; on Windows, no CDLL(None)
        return None
    function.restype = _Mallinfo2
    function.argtypes = []
    return lambda: int(function().uordblks)
