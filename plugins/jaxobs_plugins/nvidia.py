"""NVIDIA devices as their management library (NVML) sees them, whatever JAX does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pynvml

from jaxobs.model.clock import now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.protocol import Agent

UTILIZATION = Metric(
    "jaxobs_nvidia_utilization_ratio", "gauge",
    "Share of NVML's last sample period (1/6 s to 1 s) in which any kernel ran, however small",
    ("uuid",), "ratio",
)  # fmt: skip
MEMORY_USED = Metric(
    "jaxobs_nvidia_memory_used_bytes", "gauge", "Device memory taken by all processes and the driver",
    ("uuid",), "bytes",
)  # fmt: skip
POWER = Metric("jaxobs_nvidia_power_watts", "gauge", "Power drawn by the board", ("uuid",), "watts")

_READERS: tuple[tuple[Metric, Callable[[Any], float]], ...] = (
    (UTILIZATION, lambda device: pynvml.nvmlDeviceGetUtilizationRates(device).gpu / 100),  # percent
    (MEMORY_USED, lambda device: pynvml.nvmlDeviceGetMemoryInfo(device).used),  # bytes
    (POWER, lambda device: pynvml.nvmlDeviceGetPowerUsage(device) / 1000),  # milliwatts
)


class NvidiaCollector:
    """Each value of each device is read on its own. Without NVML nothing is, and `reason` says so."""

    metrics = (UTILIZATION, MEMORY_USED, POWER)
    interval = 5.0

    def __init__(self) -> None:
        self.reason = "not started"
        self._devices: list[tuple[str, Any]] = []
        self._started = False

    def start(self, agent: Agent) -> None:  # noqa: ARG002  # the devices are the host's, not the job's
        """A host without an NVIDIA driver is no failure: the collector then stays quiet."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.reason = f"no NVIDIA device is seen: {error}"
            return
        self._started = True
        self._devices = [(pynvml.nvmlDeviceGetUUID(device), device) for device in _handles()]
        self.reason = "" if self._devices else "NVML lists no device"

    def collect(self) -> Iterable[Measured]:
        return list(self._collect())

    def stop(self) -> None:
        started, self._started, self._devices = self._started, False, []
        if started:
            pynvml.nvmlShutdown()

    def devices_present(self) -> Sequence[str]:
        """Names of the NVIDIA devices of this host, for `jaxobs check`; empty without a driver."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return ()
        try:
            return tuple(str(pynvml.nvmlDeviceGetName(device)) for device in _handles())
        finally:
            pynvml.nvmlShutdown()

    def _collect(self) -> Iterator[Measured]:
        for uuid, device in self._devices:
            for metric, read in _READERS:
                try:
                    value = float(read(device))
                except pynvml.NVMLError_NotSupported:  # this model has no such figure
                    continue
                yield Measured(metric.name, (uuid,), value, now())


def _handles() -> list[Any]:
    return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
