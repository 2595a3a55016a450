"""How much memory a recording profiler fills: all that tells, before `stop()`, how many events it has.

JAX's profiler has no limit for the events of a host, and its options have none that a CPU heeds. An event on a CPU is
held in 120 to 270 bytes of malloc's memory until `stop()`, and fills 21 to 58 bytes of the trace. What the process has
allocated is therefore an upper bound of them, for it may have allocated for other reasons too: arrays of less than 32 MiB
(larger ones are mapped, and not counted here). Resident memory is no measure: events go into what was freed before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from jaxobs.model.clock import thread_time

HELD_A_TRACED_BYTE = 5.0
"""Bytes held of an event for each that it fills in the trace: 4.7 for an operation in a loop, 5.6 for a tiny call."""

FORGETTING = 0.9
"""What the job itself may allocate during a window is remembered, and counts a tenth less with each that follows."""

SLOW = 0.005
"""Seconds of processor time. malloc walks its lists of free blocks to answer, 0.03 to 0.5 ms in all jobs tried, and
threads of the job wait for it. Where it takes so long it is not asked again."""


class Allocated:
    """What malloc has given out, in bytes; None where it is not glibc's (2.33 or newer), or slow."""

    def __init__(self) -> None:
        self._ask = _mallinfo2()
        self.seconds = 0.0
        """Processor time of all answers: as long as threads of the job may have waited for malloc."""

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
    """Memory of a recording's events. `begin` before it, `grown` meanwhile and at its end, `learn` from its trace."""

    def __init__(self, allocated: Callable[[], int | None]) -> None:
        self._allocated = allocated
        self._began: int | None = None
        self._reported = False
        self._more = 0
        self._jobs_own = 0.0

    @property
    def tells(self) -> bool:
        """Whether the last answer told anything: where malloc is slow once, it is not asked again."""
        return self._reported

    def begin(self) -> None:
        self._began, self._more = self._now(), 0

    def again(self) -> None:
        """Once more before it begins: a job that allocates and frees in each step has more now than a moment ago."""
        now = self._now()
        if now is not None and self._began is not None:
            self._began = max(self._began, now)

    def grown(self) -> int:
        """Bytes that events hold at most, less what the job was seen to allocate by itself; 0 where not known."""
        now = self._now()
        if now is None or self._began is None:
            return 0
        self._more = now - self._began
        return max(0, int(self._more - self._jobs_own))

    def _now(self) -> int | None:
        now = self._allocated()
        self._reported = now is not None
        return now

    def learn(self, traced: int) -> None:
        """From a trace of so many bytes: what had grown at its end, and was not of its events, was the job's own."""
        self._jobs_own = max(self._more - HELD_A_TRACED_BYTE * traced, FORGETTING * self._jobs_own, 0.0)


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` of malloc.h: ten of size_t."""

    _fields_ = [  # ctypes reads a list
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _mallinfo2() -> Callable[[], int] | None:
    """What asks glibc for the bytes in use in all its arenas; it gives up the interpreter lock meanwhile."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):  # no such function; no such way to ask (Windows)
        return None
    function.restype = _Mallinfo2
    function.argtypes = []
    return lambda: int(function().uordblks)
