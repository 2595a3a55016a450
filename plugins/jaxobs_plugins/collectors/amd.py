"""Collector `amd`: reads the AMD devices of the training process from AMD SMI (the package `amdsmi` of ROCm).

Written against the interface of amdsmi 7.0 and AMD's description of it, but never run on a device. Temperatures are
left out, because releases disagree on whether the call returns degrees or thousandths of degrees.

JAX's ordinals are known where AMD SMI provides HIP's order (`hip_id`, since ROCm 6.4) and JAX uses all devices, or
those that one of HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES lists by index. Otherwise the label `device` is empty.
Units are those of AMD's description: percent, watts, MHz, bytes; energy in microjoules.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jaxobs.model import hardware_forms as hw
from jaxobs.model.events import Measured
from jaxobs.model.metrics import DeviceReading, metric
from jaxobs.plugin.fields import DeviceCollector, Fields, Query, Sample, metrics_of
from jaxobs.plugin.protocol import Agent

UTILIZATION = metric(
    "jaxobs_amd_utilization_ratio{device,uuid}",
    "Share of time in which the graphics engine was busy", hardware=hw.UTILIZATION,
)  # fmt: skip
MEMORY_UTILIZATION = metric(
    "jaxobs_amd_memory_utilization_ratio{device,uuid}",
    "Share of time in which the memory controller was busy",
)
MEMORY_USED = metric(
    "jaxobs_amd_memory_used_bytes{device,uuid}",
    "Device memory in use by all processes", hardware=hw.MEMORY_USAGE,
)  # fmt: skip
MEMORY_TOTAL = metric(
    "jaxobs_amd_memory_total_bytes{device,uuid}", "Physical device memory", hardware=hw.MEMORY_LIMIT
)
PROCESS_MEMORY = metric(
    "jaxobs_amd_process_memory_bytes{device,uuid}", "Device memory of the training process"
)
POWER = metric("jaxobs_amd_power_watts{device,uuid}", "Power drawn by the socket", hardware=hw.POWER)
POWER_LIMIT = metric("jaxobs_amd_power_limit_watts{device,uuid}", "The power limit in force")
ENERGY = metric(
    "jaxobs_amd_energy_joules_total{device,uuid}",
    "Energy the socket has taken during this run", hardware=hw.ENERGY,
)  # fmt: skip
CLOCK = metric("jaxobs_amd_clock_hertz{device,uuid,clock}", "Frequency now")
CLOCK_LIMIT = metric("jaxobs_amd_clock_limit_hertz{device,uuid,clock}", "Highest frequency of the device")
THROTTLED = metric("jaxobs_amd_throttled{device,uuid,reason}", "1 while this limit holds the device back")
ECC_ERRORS = metric(
    "jaxobs_amd_ecc_errors_total{device,uuid,kind}", "Memory errors during this run", hardware=hw.ERRORS
)

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


def _number(value: Any, scale: float = 1.0) -> float | None:
    """A number of AMD SMI's in base units; None where it says "N/A"."""
    return value * scale if isinstance(value, int | float) else None


def _activity(device: Device) -> Iterator[Sample]:
    activity = device.library.amdsmi_get_gpu_activity(device.handle)  # percent
    yield UTILIZATION, (), _number(activity["gfx_activity"], 0.01)
    yield MEMORY_UTILIZATION, (), _number(activity["umc_activity"], 0.01)


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
    yield POWER_LIMIT, (), _power_limit(_number(power.get("power_limit")))


MAX_WATTS, MIN_MICROWATTS = 1e4, 1e7
"""No socket draws 10 kW, and none is limited to less than 10 W."""


def _power_limit(value: float | None) -> float | None:
    """The limit in watts; None for 0 and for what lies between the two units.

    It is documented in watts, but releases up to ROCm 7.2 give microwatts (ROCm/amdsmi, pull request 174;
    ROCm/rocm-systems, issue 5037).
    """
    if value is None or value <= 0 or MAX_WATTS < value < MIN_MICROWATTS:
        return None
    return value if value <= MAX_WATTS else value / 1e6


def _energy(device: Device) -> Iterator[Sample]:
    energy = device.library.amdsmi_get_energy_count(device.handle)  # their product is in microjoules
    yield ENERGY, (), energy["energy_accumulator"] * energy["counter_resolution"] / 1e6


def _clock(label: str, name: str) -> Callable[[Device], Iterator[Sample]]:
    def read(device: Device) -> Iterator[Sample]:
        kind = getattr(device.library.AmdSmiClkType, name)
        clock = device.library.amdsmi_get_clock_info(device.handle, kind)  # MHz
        yield CLOCK, (label,), _number(clock["clk"], 1e6)
        yield CLOCK_LIMIT, (label,), _number(clock["max_clk"], 1e6)

    return read


def _throttled(device: Device) -> Iterator[Sample]:
    status = device.library.amdsmi_get_violation_status(device.handle)
    for reason, name in REASONS.items():
        yield THROTTLED, (reason,), _number(status.get(name))


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
    DeviceReading("power", POWER), DeviceReading("power_limit", POWER_LIMIT),
    DeviceReading("throttled", THROTTLED, reasons=frozenset(REASONS)),
)  # fmt: skip


KERNEL_MODULE = Path("/sys/module/amdgpu")
_VISIBLE = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_OTHERS = ("JAX_ROCM_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


class AmdCollector(DeviceCollector):
    """Reads AMD's devices. Without AMD's driver or its package it measures nothing, and `reason` says why.

    `environment` is that of the training process, which the agent inherits, and has anew once JAX has a backend.
    """

    metrics = metrics_of(QUERIES)
    device_readings = READINGS
    platforms = frozenset({"gpu", "rocm"})
    device = "AMD device"

    def __init__(self, environment: Mapping[str, str] = os.environ, driver: Path = KERNEL_MODULE) -> None:
        self._environment = environment
        self._driver = driver
        self._library: Any = None

    def start(self, agent: Agent) -> None:
        if self._driver.exists():
            super().start(agent)
        else:
            self.reason = "no AMD driver is loaded"

    def opened(self, agent: Agent) -> list[Callable[[], list[Measured]]]:
        """Open AMD SMI, for a job on GPUs, and return what reads its devices.

        Logs one line where AMD SMI cannot be used: with a processor's own graphics too its driver is loaded.
        """
        try:
            library = importlib.import_module("amdsmi")
            library.amdsmi_init()
        except (Exception, SystemExit) as error:  # noqa: BLE001  # an import may raise anything, and end a program
            self.reason = f"AMD SMI cannot be used ({type(error).__name__}: {error}); install ROCm's amdsmi"
            agent.log(f"no metrics of AMD devices: {self.reason}")
            return []
        self._library, told = library, agent.resource
        readers: list[Callable[[], list[Measured]]] = []
        alone = told.get("jax.process_count", "1") == "1"
        for ordinal, handle in _handles(library, self._environment, alone=alone):
            try:
                labels = (ordinal, str(library.amdsmi_get_gpu_device_uuid(handle)))
            except library.AmdSmiException as error:
                agent.log(f"no metrics of an AMD device that does not tell its UUID: {error}")
                continue
            # The device refuses, or this release of the package lacks the call.
            fields = Fields(QUERIES, labels, unsupported=(library.AmdSmiException, AttributeError, KeyError))
            readers.append(partial(fields.collect, Device(library, handle, told.get("process.pid"))))
        self.reason = "" if readers else "AMD SMI lists no device with a UUID"
        return readers

    def stop(self) -> None:
        library, self._library, self._agent, self._readers = self._library, None, None, None
        if library is not None:
            library.amdsmi_shut_down()


def _handles(library: Any, environment: Mapping[str, str], *, alone: bool) -> list[tuple[str, Any]]:
    """Pairs of JAX's local ordinal, empty where it is unknown, and the device's handle."""
    handles = list(library.amdsmi_get_processor_handles())
    try:
        places = [int(library.amdsmi_get_gpu_enumeration_info(handle)["hip_id"]) for handle in handles]
    except Exception:  # noqa: BLE001  # older than ROCm 6.4, or not known for a device
        return [("", handle) for handle in handles]
    in_order = [handle for _, handle in sorted(zip(places, handles, strict=True), key=lambda pair: pair[0])]
    lists = [environment[name] for name in _VISIBLE if name in environment]
    if len(lists) > 1 or any(name in environment for name in _OTHERS):
        return [("", handle) for handle in in_order]
    numbers = list(range(len(in_order)))
    if lists:
        entries = [entry.strip() for entry in lists[0].split(",")]
        if not all(entry.isdecimal() and int(entry) < len(in_order) for entry in entries):
            return [("", handle) for handle in in_order]
        numbers = [int(entry) for entry in entries]
    known = alone or len(numbers) == 1
    return [(str(ordinal) if known else "", in_order[number]) for ordinal, number in enumerate(numbers)]
