"""The names that readings of devices have in OpenTelemetry's semantic conventions for hardware, beside our own.

https://opentelemetry.io/docs/specs/semconv/hardware/ (development status). They have no metric for, or mean another thing
by: how busy the memory controller is (`hw.gpu.memory.utilization` is the share of memory in use), NVLink and PCIe
(`hw.gpu.io` is all of a device's traffic), clocks, limits of power and temperature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class HardwareForm:
    """A metric of the conventions: `name`, `unit` (UCUM), constant `attributes`, and whether it is a sum or a gauge.

    `labels` maps labels of the reading to attributes, one of them to `hw.id`: a series in which that one is empty is
    left out.
    """

    name: str
    unit: str
    attributes: Mapping[str, str] = field(default_factory=dict, hash=False)
    labels: Mapping[str, str] = field(default_factory=lambda: {"uuid": "hw.id"}, hash=False)
    is_sum: bool = False


_GPU = {"hw.type": "gpu"}
UTILIZATION = HardwareForm("hw.gpu.utilization", "1")
MEMORY_USAGE = HardwareForm("hw.gpu.memory.usage", "By", is_sum=True)
MEMORY_LIMIT = HardwareForm("hw.gpu.memory.limit", "By", is_sum=True)
POWER = HardwareForm("hw.power", "W", _GPU)
ENERGY = HardwareForm("hw.energy", "J", _GPU, is_sum=True)
TEMPERATURE = HardwareForm("hw.temperature", "Cel", _GPU, {"uuid": "hw.id", "sensor": "hw.sensor_location"})
ERRORS = HardwareForm("hw.errors", "{error}", _GPU, {"uuid": "hw.id", "kind": "error.type"}, is_sum=True)
XID_ERRORS = HardwareForm("hw.errors", "{error}", {**_GPU, "error.type": "xid"}, is_sum=True)
STATUS_OK = HardwareForm("hw.status", "1", {**_GPU, "hw.state": "ok"}, is_sum=True)
