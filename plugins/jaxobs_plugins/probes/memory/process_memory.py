"""Reads the memory of the training process from Linux's /proc: in use, at its peak, and the limit."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path

from jaxobs.model.clock import now
from jaxobs.model.events import PROCESS_MEMORY, MemorySampled
from jaxobs.plugin import control_groups

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
