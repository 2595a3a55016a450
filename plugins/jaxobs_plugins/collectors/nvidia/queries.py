"""All queries of NVML for one device; each is independent, so one that fails costs only its own metrics.

Units are NVML's as `nvml.h` gives them, turned into base units here: percent, milliwatts, millijoules, MHz, °C,
nanoseconds, kB/s, and KiB for NVLink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import Query, Sample
from jaxobs_plugins.collectors.nvidia import catalogue as names
from jaxobs_plugins.collectors.nvidia.library import field_value, newest
from jaxobs_plugins.collectors.nvidia.xid import XidEvents


@dataclass(frozen=True, slots=True)
class Device:
    """The subject of a query: `handle` is the board's, `part` that of the MIG instance, or else the board's too."""

    board_uuid: str
    handle: Any
    part: Any
    pid: str | None
    xids: XidEvents


CLOCKS_EVENT_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
    "display_clock_setting": 0x100,
}
"""Bits of `nvmlClocksEventReasons`, under NVML's own names."""

ALL_LINKS = 0xFFFFFFFF
"""The scope under which NVLink's fields are sums over all links."""


def _one(metric: Metric, ask: Callable[[Any], float], *labels: str) -> Query[Device]:
    return Query((metric,), lambda device: [(metric, labels, ask(device.handle))])


def _utilization(device: Device) -> Iterator[Sample]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(device.handle)
    yield names.UTILIZATION, (), rates.gpu / 100
    yield names.MEMORY_UTILIZATION, (), rates.memory / 100


def _memory(device: Device) -> Iterator[Sample]:
    # Version 1 of this call counts the reserved memory as used; version 2 came with driver 510.
    memory = pynvml.nvmlDeviceGetMemoryInfo(device.part, version=pynvml.nvmlMemory_v2)
    yield names.MEMORY_USED, (), memory.used
    yield names.MEMORY_RESERVED, (), memory.reserved
    yield names.MEMORY_TOTAL, (), memory.total


def _process_memory(device: Device) -> Iterator[Sample]:
    processes = newest(  # v3 came with driver 510; the unversioned name hides which one the driver lacks
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"), device.part
    )
    for process in processes:
        if str(process.pid) == device.pid:
            yield names.PROCESS_MEMORY, (), process.usedGpuMemory


def _clocks_events(device: Device) -> Iterator[Sample]:
    bits = newest(  # renamed with driver 535
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), device.handle
    )
    for reason, bit in CLOCKS_EVENT_REASONS.items():
        yield names.CLOCKS_EVENT, (reason,), float(bool(bits & bit))


def _remapped_rows(device: Device) -> Iterator[Sample]:
    corrected, uncorrected, pending, failure = pynvml.nvmlDeviceGetRemappedRows(device.handle)
    yield names.REMAPPED_ROWS, ("corrected",), corrected
    yield names.REMAPPED_ROWS, ("uncorrected",), uncorrected
    yield names.REMAP_PENDING, (), float(bool(pending))
    yield names.REMAP_FAILURE, (), float(bool(failure))


def _xid(device: Device) -> Iterator[Sample]:
    yield names.XID_EVENTS, (), device.xids.count(device.board_uuid)
    yield names.LAST_XID, (), device.xids.last(device.board_uuid)


def _temperature(handle: Any) -> float:
    return float(
        newest(  # the second goes with CUDA 14, and the first is missing before driver 570
            ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"), handle, pynvml.NVML_TEMPERATURE_GPU
        )
    )


def _throttled(policy: int) -> Callable[[Any], float]:
    return lambda handle: pynvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime / 1e9


def _ecc_errors(kind: int) -> Callable[[Any], float]:
    since_the_driver_was_loaded = pynvml.NVML_VOLATILE_ECC
    return lambda handle: float(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, since_the_driver_was_loaded))


def _clock(kind: int) -> Callable[[Any], float]:
    return lambda handle: pynvml.nvmlDeviceGetClockInfo(handle, kind) * 1e6


def _clock_limit(kind: int) -> Callable[[Any], float]:
    return lambda handle: pynvml.nvmlDeviceGetMaxClockInfo(handle, kind) * 1e6


def _temperature_limit(kind: int) -> Callable[[Any], float]:
    return lambda handle: float(pynvml.nvmlDeviceGetTemperatureThreshold(handle, kind))


def _pcie(counter: int) -> Callable[[Any], float]:
    return lambda handle: pynvml.nvmlDeviceGetPcieThroughput(handle, counter) * 1e3


def _nvlink(field: int) -> Callable[[Any], float]:
    return lambda handle: field_value(handle, field, ALL_LINKS) * 1024


BOARD_QUERIES: tuple[Query[Device], ...] = (
    Query((names.UTILIZATION, names.MEMORY_UTILIZATION), _utilization),
    _one(names.POWER, lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
    _one(names.POWER_LIMIT, lambda handle: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
    _one(names.ENERGY, lambda handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3),
    _one(names.CLOCK, _clock(pynvml.NVML_CLOCK_SM), "sm"),
    _one(names.CLOCK, _clock(pynvml.NVML_CLOCK_MEM), "memory"),
    _one(names.CLOCK_LIMIT, _clock_limit(pynvml.NVML_CLOCK_SM), "sm"),
    _one(names.CLOCK_LIMIT, _clock_limit(pynvml.NVML_CLOCK_MEM), "memory"),
    _one(names.TEMPERATURE, _temperature, "gpu"),
    _one(names.TEMPERATURE, lambda handle: field_value(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP), "memory"),
    _one(names.TEMPERATURE_LIMIT, _temperature_limit(pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN), "slowdown"),
    _one(names.TEMPERATURE_LIMIT, _temperature_limit(pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN), "shutdown"),
    _one(names.TEMPERATURE_LIMIT, _temperature_limit(pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX), "memory"),
    Query((names.CLOCKS_EVENT,), _clocks_events),
    _one(names.THROTTLED, _throttled(pynvml.NVML_PERF_POLICY_POWER), "power"),
    _one(names.THROTTLED, _throttled(pynvml.NVML_PERF_POLICY_THERMAL), "thermal"),
    _one(names.THROTTLED, _throttled(pynvml.NVML_PERF_POLICY_SYNC_BOOST), "sync_boost"),
    _one(names.THROTTLED, _throttled(pynvml.NVML_PERF_POLICY_BOARD_LIMIT), "board_limit"),
    _one(names.THROTTLED, _throttled(pynvml.NVML_PERF_POLICY_RELIABILITY), "reliability"),
    _one(names.PCIE, _pcie(pynvml.NVML_PCIE_UTIL_RX_BYTES), "receive"),
    _one(names.PCIE, _pcie(pynvml.NVML_PCIE_UTIL_TX_BYTES), "transmit"),
    _one(names.NVLINK, _nvlink(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX), "receive"),
    _one(names.NVLINK, _nvlink(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX), "transmit"),
    _one(names.ECC_ERRORS, _ecc_errors(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED), "corrected"),
    _one(names.ECC_ERRORS, _ecc_errors(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED), "uncorrected"),
    Query((names.REMAPPED_ROWS, names.REMAP_PENDING, names.REMAP_FAILURE), _remapped_rows),
    Query((names.XID_EVENTS, names.LAST_XID), _xid),
)
"""Queries of a board as a whole; its MIG instances share the answers."""

PART_QUERIES: tuple[Query[Device], ...] = (
    Query((names.MEMORY_USED, names.MEMORY_RESERVED, names.MEMORY_TOTAL), _memory),
    Query((names.PROCESS_MEMORY,), _process_memory),
)
"""Queries with an answer of its own for each MIG instance."""
