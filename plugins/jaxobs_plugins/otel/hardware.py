"""Maps NVML's readings to the names of OpenTelemetry's semantic conventions for hardware, sent beside our own.

https://opentelemetry.io/docs/specs/semconv/hardware/gpu/ (development status). Left out, because the conventions have
no metric for them or one of another meaning: how busy the memory controller is (`hw.gpu.memory.utilization` is the
share of memory in use), NVLink and PCIe (`hw.gpu.io` is all of a device's traffic),
clocks, limits of power and temperature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from jaxobs.model.metrics import Family

Form = Literal["gauge", "sum", "monotonic sum"]
UUID = "uuid"


class Convention(NamedTuple):
    """A metric of the conventions: `fixed` are constant attributes, `labels` maps labels of ours to attributes."""

    name: str
    unit: str
    form: Form
    fixed: dict[str, str]
    labels: dict[str, str]


class HardwarePoint(NamedTuple):
    """One reading of one device."""

    convention: Convention
    description: str
    attributes: dict[str, str]
    value: float


_GPU = {"hw.type": "gpu"}
CONVENTIONS: dict[str, Convention] = {
    "jaxobs_nvidia_utilization_ratio": Convention("hw.gpu.utilization", "1", "gauge", {}, {}),
    "jaxobs_nvidia_memory_used_bytes": Convention("hw.gpu.memory.usage", "By", "sum", {}, {}),
    "jaxobs_nvidia_memory_total_bytes": Convention("hw.gpu.memory.limit", "By", "sum", {}, {}),
    "jaxobs_nvidia_power_watts": Convention("hw.power", "W", "gauge", _GPU, {}),
    "jaxobs_nvidia_energy_joules_total": Convention("hw.energy", "J", "monotonic sum", _GPU, {}),
    "jaxobs_nvidia_temperature_celsius": Convention(
        "hw.temperature", "Cel", "gauge", _GPU, {"sensor": "hw.sensor_location"}
    ),
    "jaxobs_nvidia_ecc_errors_total": Convention(
        "hw.errors", "{error}", "monotonic sum", _GPU, {"kind": "error.type"}
    ),
    "jaxobs_nvidia_xid_events_total": Convention(
        "hw.errors", "{error}", "monotonic sum", {**_GPU, "error.type": "xid"}, {}
    ),
    "jaxobs_nvidia_device_up": Convention("hw.status", "1", "sum", {**_GPU, "hw.state": "ok"}, {}),
}


def hardware_points(families: Iterable[Family]) -> Iterator[HardwarePoint]:
    """The readings that the conventions have a name for. A device without a UUID has no `hw.id` and is left out."""
    for family in families:
        convention = CONVENTIONS.get(family.metric.name)
        if convention is None:
            continue
        for values, value in family.series.items():
            labels = dict(zip(family.metric.labels, values, strict=True))
            if not isinstance(value, float | int) or not labels.get(UUID):
                continue
            attributes = {"hw.id": labels[UUID], **convention.fixed}
            attributes |= {name: labels[label] for label, name in convention.labels.items()}
            yield HardwarePoint(convention, family.metric.help, attributes, float(value))
