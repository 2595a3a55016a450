"""The collector `amd`: loads AMD SMI where there is a driver, selects the job's devices, and queries each in turn.

JAX's ordinals are known where AMD SMI provides HIP's order (`hip_id`, since ROCm 6.4) and JAX uses all devices, or
those that one of HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES lists by index. Otherwise the label `device` is empty.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jaxobs.model.events import Measured
from jaxobs.plugin.base import Collector
from jaxobs.plugin.fields import Fields, metrics_of
from jaxobs.plugin.protocol import Agent
from jaxobs_plugins.collectors.amd.queries import QUERIES, READINGS, Device

KERNEL_MODULE = Path("/sys/module/amdgpu")
_VISIBLE = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_OTHERS = ("JAX_ROCM_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


class AmdCollector(Collector):
    """Reads AMD's devices. Without AMD's driver or its package it measures nothing, and `reason` says why."""

    metrics = metrics_of(QUERIES)
    device_readings = READINGS
    interval = 5.0

    def __init__(self, environment: Mapping[str, str] = os.environ, driver: Path = KERNEL_MODULE) -> None:
        self.reason = "not started"
        self._environment = environment
        self._driver = driver
        self._library: Any = None
        self._agent: Agent | None = None
        self._devices: list[tuple[Device, Fields[Device]]] = []

    def start(self, agent: Agent) -> None:
        """Open AMD SMI. Logs one line where the driver is loaded and AMD SMI cannot be used."""
        if not self._driver.exists():
            self.reason = "no AMD driver is loaded"
            return
        try:
            _require_native_library(self._environment)
            library = importlib.import_module("amdsmi")
            library.amdsmi_init()
        except Exception as error:  # noqa: BLE001  # an import may raise anything
            self.reason = f"AMD SMI cannot be used ({type(error).__name__}: {error}); install ROCm's amdsmi"
            agent.log(f"no metrics of AMD devices: {self.reason}")
            return
        self._library, self._agent = library, agent
        pid = agent.resource.get("process.pid")
        processes = agent.resource.get("jax.process_count", "1")
        for ordinal, handle in _chosen(library, self._environment, alone=processes == "1"):
            labels = (ordinal, str(library.amdsmi_get_gpu_device_uuid(handle)))
            # The device refuses, or this release of the package lacks the call.
            fields = Fields(QUERIES, labels, unsupported=(library.AmdSmiException, AttributeError, KeyError))
            self._devices.append((Device(library, handle, pid), fields))
        self.reason = "" if self._devices else "AMD SMI lists no device"

    def collect(self) -> Iterable[Measured]:
        if self._agent is not None and self._agent.resource.get("jax.platform", "gpu") not in {"gpu", "rocm"}:
            self.reason = "JAX uses no AMD device"
            return [gone for _, fields in self._devices for gone in fields.withdraw()]
        return [value for device, fields in self._devices for value in fields.collect(device)]

    def stop(self) -> None:
        library, self._library, self._agent, self._devices = self._library, None, None, []
        if library is not None:
            library.amdsmi_shut_down()


def _require_native_library(environment: Mapping[str, str]) -> None:
    """Raise OSError where the package would not find its library, which it would print to the job's console."""
    spec = importlib.util.find_spec("amdsmi")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or () if spec else ())]
    roots = (environment.get("ROCM_HOME"), environment.get("ROCM_PATH"), "/opt/rocm")
    folders += [Path(root) / "lib" for root in roots if root]
    if not any((folder / "libamd_smi.so").exists() for folder in folders):
        ctypes.CDLL("libamd_smi.so")


def _chosen(library: Any, environment: Mapping[str, str], *, alone: bool) -> list[tuple[str, Any]]:
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
