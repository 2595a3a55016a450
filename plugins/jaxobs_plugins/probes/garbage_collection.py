"""Probe `garbage_collection`: counts the passes of Python's cyclic garbage collector over the job's objects.

The collector keeps the counts itself. The duration of a pass is not measured: that would need a callback of ours inside
each pass, and an exception that a signal handler raises there (Ctrl-C) is printed and lost.
"""

from __future__ import annotations

import gc

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job

COLLECTIONS = metric(
    "jaxobs_garbage_collections_total{generation}",
    "Passes of Python's garbage collector, by the oldest generation that they went through",
)


class GarbageCollectionProbe(Probe):
    """Reads `gc.get_stats()` once a second and emits the increase of each generation's count."""

    metrics = (COLLECTIONS,)

    def __init__(self) -> None:
        self._job: Job | None = None
        self._reported: list[int] = []

    def start(self, job: Job) -> None:
        self._job = job
        self._reported = _passes()
        for generation in range(len(self._reported)):
            job.emit(Measured(COLLECTIONS.name, (str(generation),), 0.0, now()))

    def sample(self) -> None:
        job = self._job
        if job is None:
            return
        passes = _passes()
        for generation, (total, reported) in enumerate(zip(passes, self._reported, strict=True)):
            if total > reported:
                job.emit(Measured(COLLECTIONS.name, (str(generation),), float(total - reported), now()))
        self._reported = passes

    def stop(self) -> None:
        self._job = None


def _passes() -> list[int]:
    """The number of passes since Python started, by generation."""
    return [generation["collections"] for generation in gc.get_stats()]
