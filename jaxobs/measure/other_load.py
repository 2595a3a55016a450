"""Measures how much of the processor other processes take while something is measured."""

from __future__ import annotations

import os
from pathlib import Path

from jaxobs.model.clock import perf_counter, process_time

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_IDLE_COLUMNS = (3, 4, 8, 9)
"""Columns of /proc/stat (proc_stat(5)) that are not busy time, or would count it twice: idle, waiting for a device, and
the time of guests, which is included in the user's."""


class OtherLoad:
    """Counts from its creation on. Where this process may use only some of the host's cores, the load is not known."""

    def __init__(self, statistics: Path = Path("/proc/stat")) -> None:
        self._statistics = statistics
        self._start = perf_counter()
        self._busy = self._busy_seconds()
        self._own = process_time()

    def cores(self) -> float | None:
        """The mean number of cores that other processes have kept busy since; None where it is not known."""
        busy, elapsed = self._busy_seconds(), perf_counter() - self._start
        if busy is None or self._busy is None or elapsed <= 0:
            return None
        own = process_time() - self._own
        return max(0.0, (busy - self._busy - own) / elapsed)

    def _busy_seconds(self) -> float | None:
        try:
            lines = self._statistics.read_text(encoding="utf-8").splitlines()
            ticks = [int(word) for word in lines[0].split()[1:]]
        except (OSError, ValueError, IndexError):
            return None
        cores = sum(line.startswith("cpu") for line in lines) - 1
        if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) != cores:
            return None
        return sum(value for column, value in enumerate(ticks) if column not in _IDLE_COLUMNS) / _TICKS
