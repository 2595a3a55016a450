"""The metrics of the collector `nvidia`, and the query of NVML for each.

Queries are independent: one that fails costs only its own metrics. The label `device` is JAX's local ordinal, empty if
that is unknown. On a partitioned board, `uuid` is the MIG instance's for values of the instance alone, and the board's
for the others.

Units are NVML's as `nvml.h` gives them, turned into base units here: percent, milliwatts, millijoules, MHz, °C,
nanoseconds, kB/s, and KiB for NVLink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pynvml

from jaxobs.model import hardware_forms as hw
from jaxobs.model.metrics import DeviceReading, Metric, metric
from jaxobs.plugin.fields import Query, Sample
from jaxobs_plugins.collectors.nvidia.library import XidEvents, field_value, newest

DEVICE_INFO = metric(
    "jaxobs_nvidia_device_info{device,uuid,board,name}",
    "1 for each device of this process; board is the board's UUID, which differs from uuid for a MIG instance",
)
UP = metric(
    "jaxobs_nvidia_device_up{device,uuid}",
    "1 while the device answers, 0 when NVML says that it is lost", hardware=hw.STATUS_OK,
)  # fmt: skip
UTILIZATION = metric(
    "jaxobs_nvidia_utilization_ratio{device,uuid}",
    "Share of NVML's last sample period (1/6 s to 1 s) in which any kernel ran, however small", hardware=hw.UTILIZATION,
)  # fmt: skip
MEMORY_UTILIZATION = metric(
    "jaxobs_nvidia_memory_utilization_ratio{device,uuid}",
    "Share of NVML's last sample period in which device memory was read or written, however little",
)
MEMORY_USED = metric(
    "jaxobs_nvidia_memory_used_bytes{device,uuid}",
    "Device memory allocated by all processes, without the driver's own", hardware=hw.MEMORY_USAGE,
)  # fmt: skip
MEMORY_RESERVED = metric(
    "jaxobs_nvidia_memory_reserved_bytes{device,uuid}",
    "Device memory that driver and firmware keep for themselves",
)
MEMORY_TOTAL = metric(
    "jaxobs_nvidia_memory_total_bytes{device,uuid}", "Physical device memory", hardware=hw.MEMORY_LIMIT
)
PROCESS_MEMORY = metric(
    "jaxobs_nvidia_process_memory_bytes{device,uuid}",
    "Device memory allocated by the training process; absent where its number is not seen, as in many containers",
)
POWER = metric("jaxobs_nvidia_power_watts{device,uuid}", "Power drawn by the board", hardware=hw.POWER)
POWER_LIMIT = metric("jaxobs_nvidia_power_limit_watts{device,uuid}", "The power limit in force")
ENERGY = metric(
    "jaxobs_nvidia_energy_joules_total{device,uuid}",
    "Energy the board has taken during this run", hardware=hw.ENERGY,
)  # fmt: skip
CLOCK = metric("jaxobs_nvidia_clock_hertz{device,uuid,clock}", "Frequency now")
CLOCK_LIMIT = metric("jaxobs_nvidia_clock_limit_hertz{device,uuid,clock}", "Highest frequency of the device")
TEMPERATURE = metric(
    "jaxobs_nvidia_temperature_celsius{device,uuid,sensor}",
    "Temperature of a sensor", hardware=hw.TEMPERATURE,
)  # fmt: skip
TEMPERATURE_LIMIT = metric(
    "jaxobs_nvidia_temperature_limit_celsius{device,uuid,limit}",
    "Where the device slows down, shuts down, or its memory is too hot",
)
CLOCKS_EVENT = metric(
    "jaxobs_nvidia_clocks_event{device,uuid,reason}", "1 while this keeps the clocks from their limit"
)
THROTTLED = metric(
    "jaxobs_nvidia_throttled_seconds_total{device,uuid,reason}",
    "Time during this run that the clocks were held down for this reason",
)
PCIE = metric(
    "jaxobs_nvidia_pcie_bytes_per_second{device,uuid,direction}", "Traffic over PCIe within the last 20 ms"
)
NVLINK = metric(
    "jaxobs_nvidia_nvlink_bytes_total{device,uuid,direction}",
    "Data moved over all NVLinks during this run: up to NVLink 4 without protocol, from NVLink 5 on as "
    "the links count their bytes",
)
ECC_ERRORS = metric(
    "jaxobs_nvidia_ecc_errors_total{device,uuid,kind}", "Memory errors during this run", hardware=hw.ERRORS
)
REMAPPED_ROWS = metric(
    "jaxobs_nvidia_remapped_rows{device,uuid,cause}", "Memory rows replaced in the board's life"
)
REMAP_PENDING = metric(
    "jaxobs_nvidia_row_remap_pending{device,uuid}", "1 where rows are to be replaced at the next reset"
)
REMAP_FAILURE = metric(
    "jaxobs_nvidia_row_remap_failure{device,uuid}", "1 where a row could not be replaced: change the board"
)
XID_EVENTS = metric(
    "jaxobs_nvidia_xid_events_total{device,uuid}",
    "Xid errors that the driver reported during this run", hardware=hw.XID_ERRORS,
)  # fmt: skip
LAST_XID = metric(
    "jaxobs_nvidia_last_xid{device,uuid}",
    "Number of the last Xid error of this run; absent until there is one",
)

SM, MEMORY = (("clock", "sm"),), (("clock", "memory"),)
HELD_DOWN = frozenset(
    ("sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
     "applications_clocks_setting", "sync_boost")
)  # fmt: skip
"""The reasons of NVML's that slow a busy device down; the others are idleness and the display's clock."""

READINGS = (
    DeviceReading("utilization", UTILIZATION), DeviceReading("clock", CLOCK, SM),
    DeviceReading("clock_limit", CLOCK_LIMIT, SM), DeviceReading("memory_clock", CLOCK, MEMORY),
    DeviceReading("memory_clock_limit", CLOCK_LIMIT, MEMORY),
    DeviceReading("power", POWER), DeviceReading("power_limit", POWER_LIMIT),
    DeviceReading("throttled", CLOCKS_EVENT, reasons=HELD_DOWN),
)  # fmt: skip


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
"""Bits of `nvmlClocksEventReasons`, by NVML's own names."""

ALL_LINKS = 0xFFFFFFFF
"""The scope under which NVLink's fields are sums over all links."""


def _one(metric: Metric, ask: Callable[[Any], float], *labels: str) -> Query[Device]:
    return Query((metric,), lambda device: [(metric, labels, ask(device.handle))])


def _utilization(device: Device) -> Iterator[Sample]:
    rates = pynvml.nvmlDeviceGetUtilizationRates(device.handle)
    yield UTILIZATION, (), rates.gpu / 100
    yield MEMORY_UTILIZATION, (), rates.memory / 100


def _memory(device: Device) -> Iterator[Sample]:
    # Version 1 of this call counts the reserved memory as used; version 2 came with driver 510.
    memory = pynvml.nvmlDeviceGetMemoryInfo(device.part, version=pynvml.nvmlMemory_v2)
    yield MEMORY_USED, (), memory.used
    yield MEMORY_RESERVED, (), memory.reserved
    yield MEMORY_TOTAL, (), memory.total


def _process_memory(device: Device) -> Iterator[Sample]:
    # Version 3 came with driver 510; the unversioned name hides which one the driver lacks.
    names = "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"
    for process in newest(names, device.part):
        if str(process.pid) == device.pid:
            yield PROCESS_MEMORY, (), process.usedGpuMemory


def _clocks_events(device: Device) -> Iterator[Sample]:
    # Renamed with driver 535.
    names = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
    bits = newest(names, device.handle)
    for reason, bit in CLOCKS_EVENT_REASONS.items():
        yield CLOCKS_EVENT, (reason,), float(bool(bits & bit))


def _remapped_rows(device: Device) -> Iterator[Sample]:
    corrected, uncorrected, pending, failure = pynvml.nvmlDeviceGetRemappedRows(device.handle)
    yield REMAPPED_ROWS, ("corrected",), corrected
    yield REMAPPED_ROWS, ("uncorrected",), uncorrected
    yield REMAP_PENDING, (), float(bool(pending))
    yield REMAP_FAILURE, (), float(bool(failure))


def _xid(device: Device) -> Iterator[Sample]:
    count, last = device.xids.of(device.board_uuid)
    yield XID_EVENTS, (), count
    yield LAST_XID, (), last


POLICIES = ("power", "thermal", "sync_boost", "board_limit", "reliability")
"""What NVML counts the time of, each by its own name."""


def _throttled(policy: str) -> Callable[[Any], float]:
    number = getattr(pynvml, policy)
    return lambda handle: pynvml.nvmlDeviceGetViolationStatus(handle, number).violationTime / 1e9


def _ecc_errors(kind: int) -> Callable[[Any], float]:
    since_the_driver_was_loaded = pynvml.NVML_VOLATILE_ECC
    return lambda handle: float(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, since_the_driver_was_loaded))


def _of_kind(name: str, kind: int, scale: float = 1.0) -> Callable[[Any], float]:
    """Ask NVML's function of this name for one of the kinds that it distinguishes, in base units after `scale`."""
    return lambda handle: getattr(pynvml, name)(handle, kind) * scale


NVLINK_5_RECEIVED, NVLINK_5_SENT = 204, 202
"""`NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES` and `…_XMIT_BYTES`, by number because older nvidia-ml-py lack their names."""


def _nvlink(bytes_field: int, kibibytes_field: int) -> Callable[[Any], float]:
    """Ask for the field of NVLink 5, which other boards and older drivers do not know, else for the earlier one."""

    def ask(handle: Any) -> float:
        try:
            return field_value(handle, bytes_field, ALL_LINKS)
        except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_InvalidArgument):
            return field_value(handle, kibibytes_field, ALL_LINKS) * 1024

    return ask


NOW = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
"""The second goes with CUDA 14, and the first is missing before driver 570."""
THRESHOLD = "nvmlDeviceGetTemperatureThreshold"

BOARD_QUERIES: tuple[Query[Device], ...] = (
    Query((UTILIZATION, MEMORY_UTILIZATION), _utilization),
    _one(POWER, lambda handle: pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
    _one(POWER_LIMIT, lambda handle: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
    _one(ENERGY, lambda handle: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3),
    _one(CLOCK, _of_kind("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM, 1e6), "sm"),
    _one(CLOCK, _of_kind("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM, 1e6), "memory"),
    _one(CLOCK_LIMIT, _of_kind("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM, 1e6), "sm"),
    _one(CLOCK_LIMIT, _of_kind("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_MEM, 1e6), "memory"),
    _one(TEMPERATURE, lambda handle: float(newest(NOW, handle, pynvml.NVML_TEMPERATURE_GPU)), "gpu"),
    _one(TEMPERATURE, lambda handle: field_value(handle, pynvml.NVML_FI_DEV_MEMORY_TEMP), "memory"),
    _one(TEMPERATURE_LIMIT, _of_kind(THRESHOLD, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN), "slowdown"),
    _one(TEMPERATURE_LIMIT, _of_kind(THRESHOLD, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN), "shutdown"),
    _one(TEMPERATURE_LIMIT, _of_kind(THRESHOLD, pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX), "memory"),
    Query((CLOCKS_EVENT,), _clocks_events),
    *(_one(THROTTLED, _throttled(f"NVML_PERF_POLICY_{name.upper()}"), name) for name in POLICIES),
    _one(PCIE, _of_kind("nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_RX_BYTES, 1e3), "receive"),
    _one(PCIE, _of_kind("nvmlDeviceGetPcieThroughput", pynvml.NVML_PCIE_UTIL_TX_BYTES, 1e3), "transmit"),
    _one(NVLINK, _nvlink(NVLINK_5_RECEIVED, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX), "receive"),
    _one(NVLINK, _nvlink(NVLINK_5_SENT, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX), "transmit"),
    _one(ECC_ERRORS, _ecc_errors(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED), "corrected"),
    _one(ECC_ERRORS, _ecc_errors(pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED), "uncorrected"),
    Query((REMAPPED_ROWS, REMAP_PENDING, REMAP_FAILURE), _remapped_rows),
)
"""Queries of a board as a whole; its MIG instances share the answers."""

EVENT_QUERIES: tuple[Query[Device], ...] = (Query((XID_EVENTS, LAST_XID), _xid),)
"""Queries of what the driver has reported of a board, which is known of a lost one too."""

PART_QUERIES: tuple[Query[Device], ...] = (
    Query((MEMORY_USED, MEMORY_RESERVED, MEMORY_TOTAL), _memory),
    Query((PROCESS_MEMORY,), _process_memory),
)
"""Queries with an answer of its own for each MIG instance."""
