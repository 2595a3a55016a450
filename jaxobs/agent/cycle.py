"""Schedules the agent's snapshots: one in each interval, as soon as all that the job sends in it has arrived."""

from __future__ import annotations

from typing import Final

from jaxobs.model.clock import monotonic

EARLIEST: Final = 0.7
LATEST: Final = 1.3
"""Limits of the time between two snapshots, in intervals. One follows the job's report, which ends what the job sends in
an interval, so that the agent wakes up once for both. It does not wait for a report that is late."""

FIRST_SECONDS: Final = 0.2


class Cycle:
    """When the agent makes and exports the next snapshot; `interval` is in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last = monotonic() + min(interval, FIRST_SECONDS) - LATEST * interval
        self._reported = False

    def reported(self) -> None:
        """Note that all that the job sends in this interval has arrived."""
        self._reported = True

    def is_due(self) -> bool:
        least = EARLIEST if self._reported else LATEST
        return monotonic() - self._last >= least * self._interval

    def latest(self) -> float:
        """The time by `monotonic()` at which a snapshot is due, whether the job has reported or not."""
        return self._last + LATEST * self._interval

    def begun(self) -> None:
        self._last, self._reported = monotonic(), False
