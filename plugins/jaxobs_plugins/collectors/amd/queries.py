"""The queries of AMD SMI for one device, and their metrics, whose label `device` is JAX's local ordinal.

Units are those of AMD's description of the package: percent, watts, MHz, bytes; energy in microjoules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxobs.model.metrics import DeviceReading, Kind, Metric
from jaxobs.plugin.fields import Query, Sample


def _metric(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Metric:
    return Metric(f"jaxobs_amd_{name}", kind, text, ("device", "uuid", *labels), unit)


UTILIZATION = _metric(
    "utilization_ratio", "gauge", "Share of time in which the graphics engine was busy", unit="ratio"
)
MEMORY_UTILIZATION = _metric(
    "memory_utilization_ratio", "gauge", "Share of time in which the memory controller was busy", unit="ratio"
)
MEMORY_USED = _metric("memory_used_bytes", "gauge", "Device memory in use by all processes", unit="bytes")
MEMORY_TOTAL = _metric("memory_total_bytes", "gauge", "Physical device memory", unit="bytes")
PROCESS_MEMORY = _metric(
    "process_memory_bytes", "gauge", "Device memory of the training process", unit="bytes"
)
POWER = _metric("power_watts", "gauge", "Power drawn by the socket", unit="watts")
POWER_LIMIT = _metric("power_limit_watts", "gauge", "The power limit in force", unit="watts")
ENERGY = _metric(
    "energy_joules_total", "counter", "Energy the socket has taken during this run", unit="joules"
)
CLOCK = _metric("clock_hertz", "gauge", "Frequency now", "clock", unit="hertz")
CLOCK_LIMIT = _metric("clock_limit_hertz", "gauge", "Highest frequency of the device", "clock", unit="hertz")
THROTTLED = _metric("throttled", "gauge", "1 while this limit holds the device back", "reason")
ECC_ERRORS = _metric("ecc_errors_total", "counter", "Memory errors during this run", "kind")

REASONS = {
    "processor_hot": "active_prochot_thrm",
    "package_power": "active_ppt_pwr",
    "socket_thermal": "active_socket_thrm",
    "voltage_regulator_thermal": "active_vr_thrm",
    "memory_thermal": "active_hbm_thrm",
}


@dataclass(frozen=True, slots=True)
class Device:
    """The subject of a query: the library, its handle of a device, and the id of the training process."""

    library: Any
    handle: Any
    pid: str | None


def _number(value: Any) -> float | None:
    """A number of AMD SMI's; None where it says "N/A"."""
    return float(value) if isinstance(value, int | float) else None


def _scaled(value: Any, scale: float) -> float | None:
    number = _number(value)
    return None if number is None else number * scale


def _activity(device: Device) -> Iterator[Sample]:
    activity = device.library.amdsmi_get_gpu_activity(device.handle)  # percent
    yield UTILIZATION, (), _scaled(activity["gfx_activity"], 0.01)
    yield MEMORY_UTILIZATION, (), _scaled(activity["umc_activity"], 0.01)


def _memory(device: Device) -> Iterator[Sample]:
    kind = device.library.AmdSmiMemoryType.VRAM
    yield MEMORY_USED, (), _number(device.library.amdsmi_get_gpu_memory_usage(device.handle, kind))
    yield MEMORY_TOTAL, (), _number(device.library.amdsmi_get_gpu_memory_total(device.handle, kind))


def _process_memory(device: Device) -> Iterator[Sample]:
    for process in device.library.amdsmi_get_gpu_process_list(device.handle):
        if str(process["pid"]) == device.pid:
            yield PROCESS_MEMORY, (), _number(process["memory_usage"]["vram_mem"])


def _power(device: Device) -> Iterator[Sample]:
    # In watts; which field is known depends on the model.
    power = device.library.amdsmi_get_power_info(device.handle)
    known = (_number(power.get(name)) for name in ("current_socket_power", "average_socket_power"))
    yield POWER, (), next((value for value in known if value is not None), None)
    yield POWER_LIMIT, (), _number(power.get("power_limit"))


def _energy(device: Device) -> Iterator[Sample]:
    energy = device.library.amdsmi_get_energy_count(device.handle)  # their product is in microjoules
    yield ENERGY, (), energy["energy_accumulator"] * energy["counter_resolution"] / 1e6


def _clock(label: str, name: str) -> Callable[[Device], Iterator[Sample]]:
    def read(device: Device) -> Iterator[Sample]:
        kind = getattr(device.library.AmdSmiClkType, name)
        clock = device.library.amdsmi_get_clock_info(device.handle, kind)  # MHz
        yield CLOCK, (label,), _scaled(clock["clk"], 1e6)
        yield CLOCK_LIMIT, (label,), _scaled(clock["max_clk"], 1e6)

    return read


def _throttled(device: Device) -> Iterator[Sample]:
    status = device.library.amdsmi_get_violation_status(device.handle)
    for reason, name in REASONS.items():
        active = status.get(name)
        yield THROTTLED, (reason,), float(active) if isinstance(active, bool | int) else None


def _ecc(device: Device) -> Iterator[Sample]:
    errors = device.library.amdsmi_get_gpu_total_ecc_count(device.handle)
    yield ECC_ERRORS, ("corrected",), _number(errors["correctable_count"])
    yield ECC_ERRORS, ("uncorrected",), _number(errors["uncorrectable_count"])


QUERIES: tuple[Query[Device], ...] = (
    Query((UTILIZATION, MEMORY_UTILIZATION), _activity),
    Query((MEMORY_USED, MEMORY_TOTAL), _memory),
    Query((PROCESS_MEMORY,), _process_memory),
    Query((POWER, POWER_LIMIT), _power),
    Query((ENERGY,), _energy),
    Query((CLOCK, CLOCK_LIMIT), _clock("graphics", "GFX")),
    Query((CLOCK, CLOCK_LIMIT), _clock("memory", "MEM")),
    Query((THROTTLED,), _throttled),
    Query((ECC_ERRORS,), _ecc),
)


GRAPHICS, MEMORY = (("clock", "graphics"),), (("clock", "memory"),)
READINGS = (
    DeviceReading("utilization", UTILIZATION), DeviceReading("clock", CLOCK, GRAPHICS),
    DeviceReading("clock_limit", CLOCK_LIMIT, GRAPHICS), DeviceReading("memory_clock", CLOCK, MEMORY),
    DeviceReading("memory_clock_limit", CLOCK_LIMIT, MEMORY),
    DeviceReading("throttled", THROTTLED, reasons=frozenset(REASONS)),
)  # fmt: skip
