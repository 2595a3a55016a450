"""What the kernel knows of a job and of the processes beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

import psutil


class Family(NamedTuple):
    """A job, and what its tool runs beside it: jaxobs's agent, which is no child, or children."""

    job: psutil.Process
    beside: list[psutil.Process]


def family(pid: int) -> Family:
    """The processes now."""
    job = psutil.Process(pid)
    beside = job.children(recursive=True)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if f"job={pid}" in process.cmdline():
                beside.append(process)
    return Family(job, beside)


def total(processes: Iterable[psutil.Process], of: Callable[[psutil.Process], float]) -> float:
    """Of those that are still there."""
    found = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += of(process)
    return found


def processor_seconds(process: psutil.Process) -> float:
    """In user mode and in the kernel, of all threads."""
    times = process.cpu_times()
    return times.user + times.system


def resident(process: psutil.Process) -> float:
    """Bytes in memory, those shared with other processes too."""
    return float(process.memory_info().rss)


def unshared(process: psutil.Process) -> float:
    """Bytes in memory that no other process uses: what would be free without this process."""
    return float(process.memory_full_info().uss)
