"""A plugin as a third party would write it: one metric and one span, of Python's garbage collections.

It knows nothing of jaxobs but the contract in `jaxobs.plugin.protocol` and the types in `jaxobs.model`.
"""

from __future__ import annotations

import gc

from jaxobs.model.clock import now, seconds
from jaxobs.model.events import Measured, SpanEnded
from jaxobs.model.metrics import Metric
from jaxobs.plugin.protocol import Job

COLLECTIONS = Metric(
    "example_collections_total", "counter", "Garbage collections in the training process.", ("generation",)
)
COLLECTION_SECONDS = Metric(
    "example_collection_seconds",
    "histogram",
    "Their durations.",
    (),
    "seconds",
    (0.0001, 0.001, 0.01, 0.1, 1.0),
)


class ExampleProbe:
    """Hooks into the garbage collector, which runs in the middle of anything: so it only emits."""

    metrics = (COLLECTIONS, COLLECTION_SECONDS)

    def __init__(self) -> None:
        self._job: Job | None = None
        self._began = 0

    def start(self, job: Job) -> None:
        self._job = job
        self._hook = job.guard(self._collected)
        gc.callbacks.append(self._hook)

    def stop(self) -> None:
        if self._job is not None:
            gc.callbacks.remove(self._hook)
            self._job = None

    def _collected(self, phase: str, information: dict[str, int]) -> None:
        if self._job is None:
            return
        if phase == "start":
            self._began = now()
            return
        end = now()
        generation = str(information["generation"])
        self._job.emit(Measured(COLLECTIONS.name, (generation,), 1.0, end))
        self._job.emit(Measured(COLLECTION_SECONDS.name, (), seconds(end - self._began), end))
        if generation == "2":
            attributes = (("example.collected", information["collected"]),)
            self._job.emit(SpanEnded("example.collection", self._began, end, attributes, None))
