"""Probe `garbage_collection`: how long Python's cyclic garbage collector stops the training process.

The collector holds the interpreter lock for a whole pass: no thread runs Python meanwhile, so no step is dispatched.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
import weakref
from typing import Any

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.protocol import Job

SECONDS = Metric(
    "jaxobs_garbage_collection_seconds_total", "counter",
    "Time that Python's garbage collector stopped the training process, by the oldest generation it went through",
    ("generation",), "seconds",
)  # fmt: skip
COLLECTIONS = Metric(
    "jaxobs_garbage_collections_total", "counter", "Passes of Python's garbage collector", ("generation",)
)
GENERATIONS = 3


class GarbageCollectionProbe:
    """Adds up on the thread that collects, where nothing but plain attributes is touched; tells once a second.

    One callback stands before and one behind those of others, so that their work counts as part of the pause: JAX
    frees buffers in one of its own.
    """

    metrics = (SECONDS, COLLECTIONS)

    def __init__(self) -> None:
        self.nanoseconds = [0] * GENERATIONS
        self.collections = [0] * GENERATIONS
        self._began = 0
        self._told = ([0] * GENERATIONS, [0] * GENERATIONS)
        self._job: Job | None = None
        # Bound once: a method is a new object each time it is looked up.
        self._callbacks = (self._first, self._last)

    def start(self, job: Job) -> None:
        self._job = job
        self._told = (list(self.nanoseconds), list(self.collections))
        for generation in range(GENERATIONS):
            job.emit(Measured(SECONDS.name, (str(generation),), 0.0, now()))
            job.emit(Measured(COLLECTIONS.name, (str(generation),), 0.0, now()))
        gc.callbacks.insert(0, self._callbacks[0])
        gc.callbacks.append(self._callbacks[1])
        _started.add(self)

    def sample(self) -> None:
        """Emit what was added since the last call."""
        job = self._job
        if job is None:
            return
        seconds, collections = list(self.nanoseconds), list(self.collections)
        for generation in range(GENERATIONS):
            passes = collections[generation] - self._told[1][generation]
            if passes > 0:
                label = (str(generation),)
                added = (seconds[generation] - self._told[0][generation]) / NANOSECONDS
                job.emit(Measured(SECONDS.name, label, added, now()))
                job.emit(Measured(COLLECTIONS.name, label, float(passes), now()))
        self._told = (seconds, collections)

    def stop(self) -> None:
        self._job = None
        for callback in self._callbacks:
            with contextlib.suppress(ValueError):
                gc.callbacks.remove(callback)

    def _first(self, phase: str, info: dict[str, Any]) -> None:  # noqa: ARG002  # gc passes both
        if phase == "start":
            self._began = time.perf_counter_ns()

    def _last(self, phase: str, info: dict[str, Any]) -> None:
        # Nothing here can raise: Python would print it to the job's console, once a collection.
        generation = info.get("generation", GENERATIONS)
        if phase == "stop" and self._began and generation < GENERATIONS:
            self.nanoseconds[generation] += time.perf_counter_ns() - self._began
            self.collections[generation] += 1
        if phase == "stop":
            self._began = 0


_started: weakref.WeakSet[GarbageCollectionProbe] = weakref.WeakSet()


def _stop_after_fork() -> None:
    for probe in list(_started):
        probe.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_after_fork)  # once a process: it cannot be undone
