"""What exporters still have to deliver when the job ends, and how long the job waits for it.

The agent outlives the job by some seconds. So the job waits only for what will arrive: for exporters that have lately
delivered, and did so quickly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jaxobs.agent.exporting import Exporting
from jaxobs.model.clock import monotonic

SECONDS: Final = 5.0
"""For the exporters' last turn, at least: the agent ends by then."""

GRACE_SECONDS: Final = 0.5
"""The job waits so long for an exporter of which it is not known whether it delivers. The first request of a short job to
a collector on the same host takes 30 to 100 ms."""


LOOK_SECONDS: Final = 0.05
"""It is asked so often whether an exporter is still worth waiting for: one that was quick may hang at its end."""


class LastFlush:
    """Begins at once, in all exporters. The job's own patience comes on top of nothing: it counts from here too."""

    def __init__(self, exporters: Sequence[Exporting], patience: float) -> None:
        self._exporters = exporters
        self._began = monotonic()
        self._seconds = max(SECONDS, patience)
        for exporter in exporters:
            exporter.finish(self._seconds)

    def while_the_job_waits(self, patience: float) -> dict[str, str]:
        """Wait for the exporters that are worth it; then what has not been delivered, in words, by exporter."""
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
        """Wait for all of them, as long as there is time."""
        for exporter in self._exporters:
            exporter.join(self._left(self._seconds))

    def _left(self, of: float) -> float:
        return max(0.0, self._began + of - monotonic())
