"""Probe `garbage_collection`: counts the passes of Python's cyclic garbage collector over the job's objects.

The collector keeps the counts itself. The duration of a pass is not measured: that would need a callback of ours inside
each pass, and an exception that a signal handler raises there (Ctrl-C) is printed and lost.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from jaxobs.model.metrics import metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.fields import Fields, Query, Sample
from jaxobs.plugin.protocol import Job

COLLECTIONS = metric(
    "jaxobs_garbage_collections_total{generation}",
    "Passes of Python's garbage collector, by the oldest generation that they went through",
)


def _passes(_: None) -> Iterator[Sample]:
    """The number of passes since Python started, by generation."""
    for generation, stats in enumerate(gc.get_stats()):
        yield COLLECTIONS, (str(generation),), stats["collections"]


class GarbageCollectionProbe(Probe):
    """Reads `gc.get_stats()` once a second and emits the increase of each generation's count."""

    metrics = (COLLECTIONS,)

    def __init__(self) -> None:
        self._job: Job | None = None

    def start(self, job: Job) -> None:
        self._job = job
        self._fields = Fields([Query(self.metrics, _passes)])
        for zero in self._fields.collect(None):
            job.emit(zero)

    def sample(self) -> None:
        if (job := self._job) is not None:
            for grown in self._fields.collect(None):
                if grown.value:
                    job.emit(grown)

    def stop(self) -> None:
        self._job = None
