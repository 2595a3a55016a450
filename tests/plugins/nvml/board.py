"""What the scripted NVML answers of one board, and the metrics that follow."""

from __future__ import annotations

from tests.plugins.nvml.scripted import HOST

REASONS = (
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
)  # fmt: skip


QUERIES: dict[str, tuple[str, dict[tuple[str, ...], float]]] = {
    "nvmlDeviceGetUtilizationRates": ("0 37 5", {
        ("utilization_ratio",): 0.37, ("memory_utilization_ratio",): 0.05,
    }),
    "nvmlDeviceGetMemoryInfo_v2": ("0 85899345920 536870912 2147483648", {
        ("memory_total_bytes",): 80 * 2**30, ("memory_reserved_bytes",): 2**29, ("memory_used_bytes",): 2**31,
    }),
    "nvmlDeviceGetComputeRunningProcesses": ("0 17:1048576 4321:1073741824", {("process_memory_bytes",): 2**30}),
    "nvmlDeviceGetPowerUsage": ("0 71250", {("power_watts",): 71.25}),
    "nvmlDeviceGetEnforcedPowerLimit": ("0 700000", {("power_limit_watts",): 700.0}),
    "nvmlDeviceGetTotalEnergyConsumption": ("0 123456789", {("energy_joules_total",): 0.0}),
    "nvmlDeviceGetClockInfo/0/1": ("0 1980", {("clock_hertz", "sm"): 1.98e9}),
    "nvmlDeviceGetClockInfo/0/2": ("0 2619", {("clock_hertz", "memory"): 2.619e9}),
    "nvmlDeviceGetMaxClockInfo/0/1": ("0 1985", {("clock_limit_hertz", "sm"): 1.985e9}),
    "nvmlDeviceGetMaxClockInfo/0/2": ("0 2620", {("clock_limit_hertz", "memory"): 2.62e9}),
    "nvmlDeviceGetTemperatureV/0/0": ("0 61", {("temperature_celsius", "gpu"): 61.0}),
    "nvmlDeviceGetFieldValues/0/82": ("0 77", {("temperature_celsius", "memory"): 77.0}),
    "nvmlDeviceGetTemperatureThreshold/0/1": ("0 87", {("temperature_limit_celsius", "slowdown"): 87.0}),
    "nvmlDeviceGetTemperatureThreshold/0/0": ("0 92", {("temperature_limit_celsius", "shutdown"): 92.0}),
    "nvmlDeviceGetTemperatureThreshold/0/2": ("0 95", {("temperature_limit_celsius", "memory"): 95.0}),
    "nvmlDeviceGetCurrentClocksEventReasons": ("0 68", {  # 0x44
        ("clocks_event", reason): float(reason in {"sw_power_cap", "hw_thermal_slowdown"}) for reason in REASONS
    }),
    "nvmlDeviceGetViolationStatus/0/0": ("0 5000000000", {("throttled_seconds_total", "power"): 0.0}),
    "nvmlDeviceGetViolationStatus/0/1": ("0 6000000000", {("throttled_seconds_total", "thermal"): 0.0}),
    "nvmlDeviceGetViolationStatus/0/2": ("0 0", {("throttled_seconds_total", "sync_boost"): 0.0}),
    "nvmlDeviceGetViolationStatus/0/3": ("0 0", {("throttled_seconds_total", "board_limit"): 0.0}),
    "nvmlDeviceGetViolationStatus/0/5": ("0 0", {("throttled_seconds_total", "reliability"): 0.0}),
    "nvmlDeviceGetPcieThroughput/0/1": ("0 12000", {("pcie_bytes_per_second", "receive"): 1.2e7}),
    "nvmlDeviceGetPcieThroughput/0/0": ("0 3400", {("pcie_bytes_per_second", "transmit"): 3.4e6}),
    "nvmlDeviceGetFieldValues/0/139": ("0 1000000", {("nvlink_bytes_total", "receive"): 0.0}),
    "nvmlDeviceGetFieldValues/0/138": ("0 2000000", {("nvlink_bytes_total", "transmit"): 0.0}),
    "nvmlDeviceGetTotalEccErrors/0/0": ("0 3", {("ecc_errors_total", "corrected"): 0.0}),
    "nvmlDeviceGetTotalEccErrors/0/1": ("0 0", {("ecc_errors_total", "uncorrected"): 0.0}),
    "nvmlDeviceGetRemappedRows": ("0 4 1 1 0", {
        ("remapped_rows", "corrected"): 4.0, ("remapped_rows", "uncorrected"): 1.0,
        ("row_remap_pending",): 1.0, ("row_remap_failure",): 0.0,
    }),
    "nvmlEventSetWait": ("0", {("xid_events_total",): 0.0}),
}  # fmt: skip
"""Every query: its scripted answer, and the series it gives at the first reading."""


ALL = HOST | {query: answer for query, (answer, _) in QUERIES.items()}


IDENTITY = {
    ("jaxobs_nvidia_device_up", ("0", "GPU-aaaa")): 1.0,
    ("jaxobs_nvidia_device_info", ("0", "GPU-aaaa", "GPU-aaaa", "NVIDIA H100 80GB HBM3")): 1.0,
}


def series(query: str) -> dict[tuple[str, tuple[str, ...]], float]:
    return {
        (f"jaxobs_nvidia_{name}", ("0", "GPU-aaaa", *labels)): value
        for (name, *labels), value in QUERIES[query][1].items()
    }


EVERYTHING = IDENTITY | {key: value for query in QUERIES for key, value in series(query).items()}
