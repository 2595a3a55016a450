"""Probe `garbage_collection`: how often Python's cyclic garbage collector has gone through the job's objects.

The collector counts its passes itself. How long they take is not measured: that would need a callback of ours inside each
pass, and an exception that a signal handler raises there (Ctrl-C) is printed and lost.
"""

from __future__ import annotations

import gc

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job

COLLECTIONS = Metric(
    "jaxobs_garbage_collections_total",
    "counter",
    "Passes of Python's garbage collector since jaxobs began, by the oldest generation that they went through.",
    ("generation",),
)


class GarbageCollectionProbe(Probe):
    """Reads `gc.get_stats()` once a second and tells what was added."""

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
    """Passes since Python began, by generation."""
    return [generation["collections"] for generation in gc.get_stats()]
