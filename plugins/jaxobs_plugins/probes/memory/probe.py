"""The memory probe, which samples once a second on a thread of jaxobs and never on the job's.

It queries the backend that the job has made, and makes none itself. After a backend has failed, nothing of JAX is
called for a pause that doubles with each failure in a row.
"""

from __future__ import annotations

from jaxobs.jax_compat.memory import (
    DeviceStatistics,
    address_space,
    device_statistics,
    named_amounts,
)
from jaxobs.jax_compat.runtime import backend_exists
from jaxobs.model.clock import monotonic, now
from jaxobs.model.events import Measured, MemorySampled
from jaxobs.model.metrics import Metric
from jaxobs.plugin.base import Probe
from jaxobs.plugin.protocol import Job
from jaxobs_plugins.probes.memory.array_census import ArrayCensus, not_counted
from jaxobs_plugins.probes.memory.process_memory import process_memory
from jaxobs_plugins.probes.memory.stillness import Stillness

FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 300.0
"""A backend that failed is queried again after the first pause, which doubles with each
further failure up to the longest."""

SAID_AGAIN = 60
"""Samples after which the reason why a device has no figures is sent again, for an agent that was restarted."""

ADDRESSES = (
    Metric(
        "jaxobs_process_address_space_bytes", "gauge",
        "Addresses that the training process has taken, where `ulimit -v` bounds them; of memory it uses less.", (),
        "bytes",
    ),
    Metric(
        "jaxobs_process_address_space_limit_bytes", "gauge",
        "The most addresses that the training process may take, by `ulimit -v`: beyond them an allocation fails though "
        "memory is there.", (), "bytes",
    ),
)  # fmt: skip

IN_THE_PROCESS = "its arrays lie in the memory of the process"
NOTHING_TOLD = "the backend tells no memory statistics"


class MemoryProbe(Probe):
    """Emits `MemorySampled` for the process and for each device, and `LiveArraysCounted` from the census."""

    metrics = ADDRESSES  # the core derives its other memory metrics from the events

    def __init__(self) -> None:
        self._job: Job | None = None
        self._census = ArrayCensus(Stillness(self._in_checkpoint))
        self._silent: set[int] = set()
        self._known: set[int] = set()
        self._samples = 0
        self._pause = 0.0
        self._not_before = 0.0

    def start(self, job: Job) -> None:
        self._job = job

    def stop(self) -> None:
        self._job = None

    def sample(self) -> None:
        """Sample everything once. Does not raise where a backend does."""
        job = self._job
        if job is None or not backend_exists():
            return
        if self._samples % SAID_AGAIN == 0:
            self._silent.clear()
        self._samples += 1
        job.emit(process_memory())
        for metric, amount in zip(ADDRESSES, address_space() or (), strict=False):
            job.emit(Measured(metric.name, (), float(amount), now()))
        if monotonic() < self._not_before:
            return
        try:
            for allocator in device_statistics():
                self._device(job, allocator)
        except Exception as error:  # noqa: BLE001  # a backend may raise anything, and may be shutting down
            self._failed(job, error)
            return
        self._pause = 0.0
        try:
            for event in self._census.turn(lambda: self._job is None):
                job.emit(event)
        except Exception as error:  # noqa: BLE001  # one array that cannot be read costs no device its figures
            self._census.end()
            job.emit(not_counted(f"the arrays could not be counted: {type(error).__name__}: {error}"[:300]))

    def _device(self, job: Job, allocator: DeviceStatistics) -> None:
        amounts = named_amounts(allocator.statistics)
        if amounts["in_use"] is not None:
            self._silent.discard(allocator.device)
            self._known.add(allocator.device)
            job.emit(MemorySampled(device=allocator.device, **amounts, reason="", time=now()))
        elif allocator.device not in self._silent:
            self._silent.add(allocator.device)
            job.emit(
                _nothing(allocator.device, IN_THE_PROCESS if allocator.platform == "cpu" else NOTHING_TOLD)
            )

    def _in_checkpoint(self) -> bool:
        return self._job is not None and self._job.progress().in_checkpoint

    def _failed(self, job: Job, error: Exception) -> None:
        self._pause = min(max(FIRST_PAUSE_SECONDS, 2 * self._pause), LONGEST_PAUSE_SECONDS)
        self._not_before = monotonic() + self._pause
        self._census.end()
        reason = f"the backend failed: {type(error).__name__}: {error}"[:300]
        job.emit(not_counted(reason))
        for device in self._known:
            job.emit(_nothing(device, reason))


def _nothing(device: int, reason: str) -> MemorySampled:
    return MemorySampled(device, None, None, None, None, None, reason, now())
