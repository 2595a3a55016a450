"""When the agent takes stock: once in each interval, as soon as it has all that the job sent in it."""

from __future__ import annotations

from typing import Final

from jaxobs.model.clock import monotonic

EARLIEST: Final = 0.7
LATEST: Final = 1.3
"""Intervals from one turn to the next. It comes with the job's report, which ends what the job sends in each interval: so
the agent wakes up once for both. Where the report is late it comes without."""

FIRST_SECONDS: Final = 0.2


class Turns:
    """When an agent folds and exports next; `interval` is in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last = monotonic() + min(interval, FIRST_SECONDS) - LATEST * interval
        self._reported = False

    def reported(self) -> None:
        """All that the job sent in this interval is here."""
        self._reported = True

    def is_due(self) -> bool:
        least = EARLIEST if self._reported else LATEST
        return monotonic() - self._last >= least * self._interval

    def latest(self) -> float:
        """When one is due by the clock `monotonic`, whether the job has reported or not."""
        return self._last + LATEST * self._interval

    def begun(self) -> None:
        self._last, self._reported = monotonic(), False
