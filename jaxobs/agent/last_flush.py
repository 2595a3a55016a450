"""The exporters' last flush when the job ends, and how long the job waits for it.

The agent outlives the job by some seconds. So the job waits only for what is likely to arrive: for exporters whose last
delivery succeeded and which are quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxobs.agent.exporting import Exporting
from jaxobs.model.clock import monotonic

SECONDS: Final = 5.0
"""Least seconds that exporters have for their last turn; after them, or the job's longer patience, the agent ends."""

GRACE_SECONDS: Final = 0.3
"""Most seconds that the job waits for an exporter that is not known to deliver: the first request of a short job to a
collector on the same host takes 30 to 100 ms."""


LOOK_SECONDS: Final = 0.05
"""Seconds between two checks whether an exporter is still worth waiting for: a quick one may hang at its end."""


class LastFlush:
    """A flush of all exporters, which begins when this is made. The job's patience counts from then as well."""

    def __init__(self, exporters: Sequence[Exporting], patience: float) -> None:
        self._exporters = exporters
        self._began = monotonic()
        self._seconds = max(SECONDS, patience)
        for exporter in exporters:
            exporter.finish(self._seconds)

    def while_the_job_waits(self, patience: float) -> dict[str, str]:
        """Wait for the exporters that are worth it. Returns a description of what is not delivered, by exporter."""
        for exporter in self._exporters:
            while exporter.is_running():
                most = patience if exporter.worth_waiting_for() else min(patience, GRACE_SECONDS)
                if not (left := self._left(most)):
                    break
                exporter.join(min(left, LOOK_SECONDS))
        return {
            exporter.guard.source: what for exporter in self._exporters if (what := exporter.undelivered())
        }

    def to_the_end(self) -> None:
        """Wait for all exporters, as long as there is time."""
        for exporter in self._exporters:
            exporter.join(self._left(self._seconds))

    def _left(self, of: float) -> float:
        return max(0.0, self._began + of - monotonic())
