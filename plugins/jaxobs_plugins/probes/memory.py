"""Probe `memory`: samples device memory, the memory of the process, and which arrays hold it, on a thread of jaxobs.

It queries the backend that the job has made, and makes none itself. After a backend has failed, nothing of JAX is
called for a pause.

Listing the arrays is one call that holds the interpreter lock and cannot be split. So they are not listed where they are
too many, by their approximate number, which is known without listing them.
"""

from __future__ import annotations

import contextlib
import functools
import os
from dataclasses import astuple
from functools import partial
from pathlib import Path

from jaxobs.hardware import control_groups
from jaxobs.jax_compat.arrays import Census, arrays_alive, list_arrays
from jaxobs.jax_compat.memory import DeviceStatistics, device_statistics, named_amounts
from jaxobs.jax_compat.runtime import backend_exists
from jaxobs.model.clock import NANOSECONDS, monotonic, now, perf_counter_ns, sleep
from jaxobs.model.events import PROCESS_MEMORY, LiveArraysCounted, MemorySampled
from jaxobs.plugin.base import Probe
from jaxobs.plugin.guard import described
from jaxobs.plugin.protocol import Job

FIELDS = ("VmRSS:", "VmHWM:", "RssFile:")
"""Fields of `/proc/self/status`, in KiB: physical memory, its peak, and the part of it that is pages of files."""


def process_memory() -> MemorySampled:
    """This process's memory in use, its peak, and the limit; None for each that the system does not provide."""
    status = _status()
    in_use, peak = status.get("VmRSS"), status.get("VmHWM")
    # The system updates its peak less often than the amount in use.
    highest = None if in_use is None or peak is None else max(peak, in_use)
    reason = "" if in_use is not None else "the system does not tell it"
    return MemorySampled(
        PROCESS_MEMORY, in_use, highest, memory_limit(), None, None, reason, now(), status.get("RssFile")
    )


def _status() -> dict[str, int]:
    """The FIELDS of `/proc/self/status` in bytes, as far as they are there; empty on other systems."""
    with contextlib.suppress(OSError, ValueError):
        # Among the other lines is the program's name, which may be any bytes.
        text = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
        lines = (line.split() for line in text.split("\n") if line.startswith(FIELDS))
        return {name.removesuffix(":"): int(kibibytes) * 1024 for name, kibibytes, _ in lines}
    return {}


@functools.cache
def memory_limit() -> int | None:
    """The smallest of the host's memory and the limits of this process's control groups, in bytes; read only once."""
    limits: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, LookupError, ValueError):  # no control groups here
        _, limit = control_groups.memory_limit(control_groups.find_group("memory"))
        limits += [int(limit)] if limit else []
    return min((limit for limit in limits if limit > 0), default=None)


MAX_ARRAYS = 3_000
"""Most arrays that are listed, with the lines that made them: no step may be delayed by more than 2 ms.

Measured by timing `jax_compat.arrays.list_arrays` (AMD EPYC, JAX 0.6.2 and 0.10.2): it takes 110 ns for each of 3 000
arrays and 280 to 390 ns for each of 10 000, which no longer fit the processor's cache; the traceback of each takes 60 to
250 ns.
"""

SLEEP_SECONDS = 0.001
"""A census sleeps so long after each piece, so that it does not keep the interpreter lock from the job's threads."""

FIRST_INTERVAL_SECONDS = 1.0
INTERVAL_SECONDS = 10.0
"""Censuses follow each other at the first interval while a job makes its arrays, and the pause doubles up to the
second."""

TOO_MANY = f"about {{}} arrays; listing more than {MAX_ARRAYS} holds the interpreter lock too long"
UNKNOWN_NUMBER = (
    "how many arrays there are is not known, and listing very many holds the interpreter lock too long"
)

GROUPS = 20
LINES = 10
"""The numbers of the largest groups, and of the lines that made the most, that are sent to the agent."""


class ArrayCensus:
    """Counts live arrays; call `turn` about once a second."""

    def __init__(self) -> None:
        self._next = 0.0
        self._interval = FIRST_INTERVAL_SECONDS

    def turn(self) -> LiveArraysCounted | None:
        """Count if a census is due, or say why it cannot be made; None if it is not due."""
        if monotonic() < self._next:
            return None
        self._next = monotonic() + self._interval
        self._interval = min(2 * self._interval, INTERVAL_SECONDS)
        alive = arrays_alive()
        if alive is None or alive > MAX_ARRAYS:
            return not_counted(UNKNOWN_NUMBER if alive is None else TOO_MANY.format(alive))
        began = perf_counter_ns()
        listing = list_arrays()
        held = (perf_counter_ns() - began) / NANOSECONDS
        census = Census(listing, partial(sleep, SLEEP_SECONDS))
        groups, lines = tuple(map(astuple, census.groups(GROUPS))), tuple(map(astuple, census.lines(LINES)))
        return LiveArraysCounted(census.count, census.bytes, groups, lines, held, "", now())


def not_counted(reason: str) -> LiveArraysCounted:
    """The event that says why there is no census."""
    return LiveArraysCounted(None, None, (), (), 0.0, reason, now())


PAUSE_SECONDS = 30.0
"""A backend that failed is queried again after this pause: one that is shutting down is then gone, and twice a minute
costs nothing."""

IN_THE_PROCESS = "its arrays lie in the memory of the process"
NOTHING_TOLD = "the backend tells no memory statistics"


class MemoryProbe(Probe):
    """Emits `MemorySampled` for the process and for each device, and `LiveArraysCounted` from the census.

    The core derives the metrics of memory from these events.
    """

    def __init__(self) -> None:
        self._job: Job | None = None
        self._census = ArrayCensus()
        self._known: set[int] = set()
        self._not_before = 0.0

    def start(self, job: Job) -> None:
        self._job = job

    def stop(self) -> None:
        self._job = None

    def sample(self) -> None:
        """Sample everything once. Does not raise where a backend does."""
        job = self._job
        if job is None or not backend_exists():
            return
        job.emit(process_memory())
        if monotonic() < self._not_before:
            return
        try:
            for allocator in device_statistics():
                self._device(job, allocator)
        except Exception as error:  # noqa: BLE001  # a backend may raise anything, and may be shutting down
            self._failed(job, error)
            return
        try:
            counted = self._census.turn()
            if counted is not None:
                job.emit(counted)
        except Exception as error:  # noqa: BLE001  # one array that cannot be read costs no device its figures
            job.emit(not_counted(f"the arrays could not be counted: {described(error)}"[:300]))

    def _device(self, job: Job, allocator: DeviceStatistics) -> None:
        amounts, reason = named_amounts(allocator.statistics), ""
        if amounts["in_use"] is None:
            reason = IN_THE_PROCESS if allocator.platform == "cpu" else NOTHING_TOLD
        else:
            self._known.add(allocator.device)
        job.emit(MemorySampled(device=allocator.device, **amounts, reason=reason, time=now()))

    def _failed(self, job: Job, error: Exception) -> None:
        self._not_before = monotonic() + PAUSE_SECONDS
        reason = f"the backend failed: {described(error)}"[:300]
        job.emit(not_counted(reason))
        for device in self._known:
            job.emit(MemorySampled(device, None, None, None, None, None, reason, now()))
