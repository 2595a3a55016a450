"""The metrics of the collector `nvidia`. Their label `device` is JAX's local ordinal, empty where that is unknown."""

from __future__ import annotations

from jaxobs.model.metrics import DeviceReading, Kind, Metric

DEVICE_LABELS = ("device", "uuid")
"""Labels of all metrics. On a partitioned board, `uuid` is the MIG instance's for values of the instance alone, and the
board's for the others."""


def _metric(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Metric:
    return Metric(f"jaxobs_nvidia_{name}", kind, text, (*DEVICE_LABELS, *labels), unit)


DEVICE_INFO = _metric(
    "device_info", "gauge",
    "1 for each device of this process; board is the board's UUID, which differs from uuid for a MIG instance",
    "board", "name",
)  # fmt: skip
UP = _metric("device_up", "gauge", "1 while the device answers, 0 when NVML says that it is lost")
UTILIZATION = _metric(
    "utilization_ratio", "gauge",
    "Share of NVML's last sample period (1/6 s to 1 s) in which any kernel ran, however small", unit="ratio",
)  # fmt: skip
MEMORY_UTILIZATION = _metric(
    "memory_utilization_ratio", "gauge",
    "Share of NVML's last sample period in which device memory was read or written, however little", unit="ratio",
)  # fmt: skip
MEMORY_USED = _metric(
    "memory_used_bytes", "gauge", "Device memory allocated by all processes, without the driver's own", unit="bytes"
)  # fmt: skip
MEMORY_RESERVED = _metric(
    "memory_reserved_bytes", "gauge", "Device memory that driver and firmware keep for themselves", unit="bytes"
)  # fmt: skip
MEMORY_TOTAL = _metric("memory_total_bytes", "gauge", "Physical device memory", unit="bytes")
PROCESS_MEMORY = _metric(
    "process_memory_bytes", "gauge",
    "Device memory allocated by the training process; absent where its number is not seen, as in many containers",
    unit="bytes",
)  # fmt: skip
POWER = _metric("power_watts", "gauge", "Power drawn by the board", unit="watts")
POWER_LIMIT = _metric("power_limit_watts", "gauge", "The power limit in force", unit="watts")
ENERGY = _metric(
    "energy_joules_total", "counter", "Energy the board has taken during this run", unit="joules"
)
CLOCK = _metric("clock_hertz", "gauge", "Frequency now", "clock", unit="hertz")
CLOCK_LIMIT = _metric("clock_limit_hertz", "gauge", "Highest frequency of the device", "clock", unit="hertz")
TEMPERATURE = _metric("temperature_celsius", "gauge", "Temperature of a sensor", "sensor", unit="celsius")
TEMPERATURE_LIMIT = _metric(
    "temperature_limit_celsius", "gauge",
    "Where the device slows down, shuts down, or its memory is too hot", "limit", unit="celsius",
)  # fmt: skip
CLOCKS_EVENT = _metric("clocks_event", "gauge", "1 while this keeps the clocks from their limit", "reason")
THROTTLED = _metric(
    "throttled_seconds_total", "counter", "Time during this run that the clocks were held down for this reason",
    "reason", unit="seconds",
)  # fmt: skip
PCIE = _metric(
    "pcie_bytes_per_second", "gauge", "Traffic over PCIe within the last 20 ms", "direction", unit="bytes_per_second"
)  # fmt: skip
NVLINK = _metric(
    "nvlink_bytes_total", "counter", "Data moved over all NVLinks during this run, without protocol", "direction",
    unit="bytes",
)  # fmt: skip
ECC_ERRORS = _metric("ecc_errors_total", "counter", "Memory errors during this run", "kind")
REMAPPED_ROWS = _metric("remapped_rows", "gauge", "Memory rows replaced in the board's life", "cause")
REMAP_PENDING = _metric("row_remap_pending", "gauge", "1 where rows are to be replaced at the next reset")
REMAP_FAILURE = _metric("row_remap_failure", "gauge", "1 where a row could not be replaced: change the board")
XID_EVENTS = _metric("xid_events_total", "counter", "Xid errors that the driver reported during this run")
LAST_XID = _metric("last_xid", "gauge", "Number of the last Xid error of this run; absent until there is one")

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
    DeviceReading("throttled", CLOCKS_EVENT, reasons=HELD_DOWN),
)  # fmt: skip
