"""What the training process takes of its host, and what the host has left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import psutil

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.protocol import Agent

PROCESS_CPU = Metric(
    "jaxobs_process_cpu_seconds_total", "counter", "Processor time of the training process, user and system",
    unit="seconds",
)  # fmt: skip
PROCESS_RESIDENT = Metric(
    "jaxobs_process_resident_bytes", "gauge", "Physical memory of the training process", unit="bytes"
)
PROCESS_THREADS = Metric(
    "jaxobs_process_threads", "gauge", "Operating-system threads of the training process"
)
HOST_CPU = Metric(
    "jaxobs_host_cpu_utilization_ratio", "gauge", "Busy share of the processors since the last reading",
    unit="ratio",
)  # fmt: skip
HOST_AVAILABLE = Metric(
    "jaxobs_host_memory_available_bytes",
    "gauge",
    "Memory that the host can give without swapping",
    unit="bytes",
)

Value = TypeVar("Value")


class HostCollector:
    """Each value is read on its own: where the system does not tell one, the others are still given."""

    metrics = (PROCESS_CPU, PROCESS_RESIDENT, PROCESS_THREADS, HOST_CPU, HOST_AVAILABLE)
    interval = 5.0

    def __init__(self) -> None:
        self._process: psutil.Process | None = None
        self._cpu_seconds = 0.0
        self._host: tuple[float, float] | None = None

    def start(self, agent: Agent) -> None:
        """Remembers the process by its number and start time: a number given out again is not mistaken."""
        self._process = psutil.Process(int(agent.resource["process.pid"]))
        self._cpu_seconds = 0.0
        self._host = _read(_host_seconds)

    def collect(self) -> Iterable[Measured]:
        return list(self._collect())

    def stop(self) -> None:
        self._process = None

    def _collect(self) -> Iterator[Measured]:
        process = self._process
        if process is not None and _read(process.is_running):
            times = _read(process.cpu_times)
            if times is not None and times.user + times.system >= self._cpu_seconds:
                grown = times.user + times.system - self._cpu_seconds  # a counter takes what was added since
                self._cpu_seconds += grown
                yield Measured(PROCESS_CPU.name, (), grown, now())
            memory = _read(process.memory_info)
            if memory is not None:
                yield Measured(PROCESS_RESIDENT.name, (), float(memory.rss), now())
            threads = _read(process.num_threads)
            if threads is not None:
                yield Measured(PROCESS_THREADS.name, (), float(threads), now())
        before, self._host = self._host, _read(_host_seconds)
        if before is not None and self._host is not None and self._host[1] > before[1]:
            busy = (self._host[0] - before[0]) / (self._host[1] - before[1])
            yield Measured(HOST_CPU.name, (), min(1.0, max(0.0, busy)), now())
        host_memory = _read(psutil.virtual_memory)
        if host_memory is not None:
            yield Measured(HOST_AVAILABLE.name, (), float(host_memory.available), now())


def _host_seconds() -> tuple[float, float]:
    """Busy and all processor seconds since boot. Waiting for a disk is idle; user time holds guests'."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return total - idle, total


def _read(read: Callable[[], Value]) -> Value | None:
    """None where the system refuses, the process has gone, or the platform has no such figure."""
    try:
        return read()
    except (psutil.Error, OSError, NotImplementedError):
        return None
