"""The memory of the training process: what it has, had at most, and can have."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

import psutil

from jaxobs.model.clock import now
from jaxobs.model.events import PROCESS_MEMORY, MemorySampled
from jaxobs.plugin import control_groups

FIELDS = ("VmRSS:", "VmHWM:", "RssFile:")
"""Of `/proc/self/status`: physical memory, its highest so far, and the part of it that is pages of files, in KiB."""


class ProcessMemory:
    """`limit` is read once: a container's limit, else the host's memory."""

    def __init__(self) -> None:
        self._limit: int | None = None
        self._asked = False

    def read(self) -> MemorySampled:
        """Physical memory now, at its highest, and the limit; what the system does not tell is None."""
        if not self._asked:
            self._asked, self._limit = True, memory_limit()
        status = _status()
        in_use = status.get("VmRSS") or _resident_elsewhere()
        peak = status.get("VmHWM") or _peak_elsewhere()
        # The system brings its maximum up to date less often than it tells what is in use.
        highest = None if in_use is None or peak is None else max(peak, in_use)
        reason = "" if in_use is not None else "the system does not tell it"
        return MemorySampled(
            PROCESS_MEMORY, in_use, highest, self._limit, None, None, reason, now(), status.get("RssFile")
        )


def _status() -> dict[str, int]:
    """What Linux tells of this process, in bytes: FIELDS, as far as they are there."""
    with contextlib.suppress(OSError, ValueError):
        # The program's name in it may be anything.
        text = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
        lines = (line.split() for line in text.split("\n") if line.startswith(FIELDS))
        return {name.removesuffix(":"): int(kibibytes) * 1024 for name, kibibytes, _ in lines}
    return {}


def _resident_elsewhere() -> int | None:
    with contextlib.suppress(psutil.Error, OSError):
        return int(psutil.Process().memory_info().rss)
    return None


def _peak_elsewhere() -> int | None:
    """On macOS. Not on Linux: its maximum outlives exec, and so begins with that of whoever started this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if sys.platform == "darwin" else None


def memory_limit() -> int | None:
    """The least of the limits of the control groups that this process is in, and of the host's memory."""
    limits: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, LookupError, ValueError):  # no control groups here
        _, limit = control_groups.memory_limit(control_groups.find_group("memory"))
        limits += [int(limit)] if limit else []
    return min((limit for limit in limits if limit > 0), default=None)
