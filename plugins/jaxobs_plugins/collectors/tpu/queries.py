"""The queries of libtpu's monitoring library, and their metrics.

Names, formats and units are those of `get_metric(name).description()` in libtpu 0.0.52: lists of strings, one for each
chip, core or link of the host; percent, bytes, and scores from 0 to 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxobs.model.metrics import DeviceReading, Kind, Metric
from jaxobs.plugin.fields import Query, Sample


def _metric(name: str, kind: Kind, text: str, *labels: str, unit: str = "") -> Metric:
    return Metric(f"jaxobs_tpu_{name}", kind, text, labels, unit)


CHIP = ("device", "chip")
"""Labels: JAX's local ordinal, empty where it is unknown, and the chip's index among those of the host."""

DUTY_CYCLE = _metric(
    "duty_cycle_ratio",
    "gauge",
    "Share of the last sample period in which the chip executed",
    *CHIP,
    unit="ratio",
)
BANDWIDTH = _metric(
    "memory_bandwidth_ratio", "gauge", "Share of the bandwidth of device memory in use, as the host reports it",
    *CHIP, unit="ratio",
)  # fmt: skip
MEMORY_TOTAL = _metric("memory_total_bytes", "gauge", "Device memory", *CHIP, unit="bytes")
MEMORY_USED = _metric("memory_used_bytes", "gauge", "Device memory allocated", *CHIP, unit="bytes")
TENSORCORE = _metric(
    "tensorcore_utilization_ratio",
    "gauge",
    "Share of the TensorCore's capability in use",
    "device",
    "core",
    unit="ratio",
)
THROTTLED = _metric(
    "throttled_ratio",
    "gauge",
    "Share by which the chip is slowed down, in steps of a tenth",
    *CHIP,
    unit="ratio",
)
QUEUED = _metric("queued_programs", "gauge", "Programs that wait to be run on a core", "core")
LINK_HEALTH = _metric(
    "link_health", "gauge",
    "Of a link between chips: 0 healthy, 1 to 5 a passing problem, 6 to 9 a lasting minor one, 10 not usable", "link",
)  # fmt: skip

READINGS = (DeviceReading("utilization", DUTY_CYCLE), DeviceReading("slowdown", THROTTLED))


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The module `libtpu.sdk.tpumonitoring`, its metrics, and the number of JAX's local devices (None: unknown)."""

    library: Any
    supported: frozenset[str]
    devices: int | None

    def values(self, name: str) -> Sequence[str]:
        """The values of a metric. Raises NotImplementedError for one that this libtpu lacks."""
        if name not in self.supported:
            raise NotImplementedError(f"this libtpu has no {name}")
        return [str(value) for value in self.library.get_metric(name).data()]

    def ordinal(self, place: int, of: int) -> str:
        """JAX's ordinal of entry `place` in a list of `of`; empty unless it lists this process's devices alone."""
        return str(place) if of == self.devices else ""


def _listed(metric: Metric, name: str, scale: float = 1.0) -> Query[Monitoring]:
    """A query of a list of plain numbers, one for each chip or core."""

    def read(monitoring: Monitoring) -> Iterator[Sample]:
        values = monitoring.values(name)
        for place, value in enumerate(values):
            yield metric, (monitoring.ordinal(place, len(values)), str(place)), float(value) * scale

    return Query((metric,), read)


def _named(metric: Metric, name: str) -> Query[Monitoring]:
    """A query of a list of entries `name: number`."""

    def read(monitoring: Monitoring) -> Iterator[Sample]:
        for entry in monitoring.values(name):
            label, _, value = entry.rpartition(":")
            yield metric, (label.strip(),), float(value)

    return Query((metric,), read)


def _throttled(monitoring: Monitoring) -> Iterable[Sample]:
    values = monitoring.values("tpu_throttle_score")
    for entry in values:
        chip, _, score = entry.rpartition("-")
        place = int(chip)
        ordinal = monitoring.ordinal(place, len(values)) if place < len(values) else ""
        yield THROTTLED, (ordinal, chip), float(score) / 10


QUERIES: tuple[Query[Monitoring], ...] = (
    _listed(DUTY_CYCLE, "duty_cycle_pct", 0.01),
    _listed(BANDWIDTH, "hbm_util", 0.01),
    _listed(MEMORY_TOTAL, "hbm_capacity_total"),
    _listed(MEMORY_USED, "hbm_capacity_usage"),
    _listed(TENSORCORE, "tensorcore_util", 0.01),
    Query((THROTTLED,), _throttled),
    _named(QUEUED, "hlo_queue_size"),
    _named(LINK_HEALTH, "ici_link_health"),
)
