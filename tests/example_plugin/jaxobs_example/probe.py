"""A probe as a third party would write it: Python's garbage collections, with two metrics, a span and a setting.

It knows nothing of jaxobs but the contract in `jaxobs.plugin` and the types in `jaxobs.model`.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from jaxobs.model.clock import now, seconds
from jaxobs.model.events import Measured, SpanEnded
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs.plugin.settings import setting

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


@dataclass(frozen=True)
class ExampleSettings:
    """`JAXOBS_EXAMPLE_SPAN_GENERATION`, since the plugin is named `example`."""

    span_generation: int = setting(
        2, "collections of this generation and older become a span", minimum=0, maximum=2
    )


class ExampleProbe(Probe):
    """Hooks into the garbage collector, which runs in the middle of anything: so it only emits."""

    metrics = (COLLECTIONS, COLLECTION_SECONDS)
    settings = ExampleSettings()

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
        generation = information["generation"]
        self._job.emit(Measured(COLLECTIONS.name, (str(generation),), 1.0, end))
        self._job.emit(Measured(COLLECTION_SECONDS.name, (), seconds(end - self._began), end))
        if generation >= self.settings.span_generation:
            attributes = (("example.collected", information["collected"]),)
            self._job.emit(SpanEnded("example.collection", self._began, end, attributes, None))
