"""How much memory this process holds."""

from __future__ import annotations

import os
import resource
import sys


def resident_bytes() -> int:
    """Bytes in memory now, by `/proc/self/statm`; where there is none, the most there were, by getrusage(2)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # once a second, no Path needed
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024)
