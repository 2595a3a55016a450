"""The devices of this process: their peaks and roofs, memory, and what collectors report of their clocks.

A peak is reached at about the device's highest clock. Compute-bound work at a lower clock falls short of the peak by
the same factor; for memory-bound work the memory's clock counts.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.derive.loops.stretches import WINDOW
from jaxobs.derive.memory import DeviceMemory, Memory
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.events import BackendFound
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure
from jaxobs.model.metrics import DeviceReading
from jaxobs.roofline_model.bounds import ceiling, roof

NO_BACKEND: Final = "JAX has made no backend yet"
NO_READING: Final = "no collector reads this device's clocks"
NOT_TOLD: Final = "the collector does not tell it of this device"
NOT_WATCHED: Final = "its clocks were not read for long enough"

LOW_CLOCK: Final = 0.9
"""Share of the highest clock below which a shortfall is blamed on the clock. A little below the highest is normal: the
datasheet's bfloat16 peak of an H100 SXM is reached at 1 830 MHz, 0.92 of the 1 980 MHz that NVML gives as highest."""

BUSY: Final = 0.5
"""Share of the time that a device must be busy for low clocks to matter: one that is less busy saves power."""

MIN_WATCHED: Final = WINDOW // 2
"""Nanoseconds that readings must span. Clocks change from one reading to the next, so the loss is an average over the
window, or at least half of it."""

GaugesOf = Callable[[str], Mapping[tuple[str, ...], float]]
"""Gives the series of a gauge by its name: a value for each combination of label values."""


Taken = tuple[float | None, float | None]
"""Shares of the compute speed and of the memory speed that are lost to throttled clocks; None: not known."""


def average(readings: Sequence[tuple[int, Taken]]) -> Taken:
    """The mean of what was taken, by time in nanoseconds; None for both where they span less than MIN_WATCHED."""
    if not readings or readings[-1][0] - readings[0][0] < MIN_WATCHED:
        return None, None
    compute, memory = zip(*(taken for _, taken in readings), strict=True)
    return _mean(compute), _mean(memory)


@dataclass(frozen=True, slots=True)
class Reading:
    """What collectors report of one device now: the `known` quantities, and what holds its clocks down, if they tell."""

    known: Mapping[str, float]
    reasons: tuple[str, ...] | None = None

    def ratio(self, quantity: str) -> float | None:
        """The quantity over its limit; None where one of the two is not known."""
        value, limit = self.known.get(quantity), self.known.get(f"{quantity}_limit", 0.0)
        return None if value is None or limit <= 0 else value / limit

    @property
    def is_held_down(self) -> bool:
        """Whether the device is busy and its clocks are throttled."""
        busy = self.known.get("utilization", 1.0) >= BUSY
        return busy and bool(self.reasons or self.known.get("slowdown"))

    @property
    def taken(self) -> Taken:
        """What throttled clocks take now from the speed that the device has at LOW_CLOCK of its highest clock."""
        return self._taken_by("clock"), self._taken_by("memory_clock")

    def _taken_by(self, clock: str) -> float | None:
        ratio, slowdown = self.ratio(clock), self.known.get("slowdown")
        if ratio is None and slowdown is not None:
            ratio = 1 - slowdown
        if ratio is None or (self.reasons is None and slowdown is None):
            return None
        return max(0.0, 1 - ratio / LOW_CLOCK) if self.is_held_down else 0.0


@dataclass(frozen=True, slots=True)
class ClocksView:
    """What collectors report of a device now, and what low clocks took from its speed in the last window."""

    utilization_ratio: Figure[float]
    clock_ratio: Figure[float]
    memory_clock_ratio: Figure[float]
    compute_taken_ratio: Figure[float]
    memory_taken_ratio: Figure[float]
    throttle_reasons: Figure[Sequence[str]]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device, by its local ordinal."""

    device: int
    kind: str
    uuid: str
    platform: str
    peaks: Figure[Peaks]
    roofs: Sequence[Mapping[str, Any]]
    """The roofs that the series show, each as its two lines."""
    memory: Figure[DeviceMemory] = field(metadata=REASON_WHERE_ABSENT)
    clocks: Figure[ClocksView]


class Devices:
    """The backend's devices, their peaks by device kind, and what collectors report of them.

    `gauges` gives the series that collectors have set, by the name of a metric.
    """

    def __init__(self, gauges: GaugesOf, readings: tuple[DeviceReading, ...]) -> None:
        self._gauges = gauges
        self._readings = readings
        self.backend: BackendFound | None = None
        self.peaks: dict[str, Peaks] = {}
        self.dtypes: set[str] = set()
        """Element types whose roofs are drawn."""
        self._taken: defaultdict[int, deque[tuple[int, Taken]]] = defaultdict(deque)
        """What throttled clocks took from each device in the last WINDOW."""

    def ceilings(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        """The roofs as points, each with its kind of device, element type and intensity."""
        for kind, peaks in self.peaks.items():
            for dtype in self.dtypes:
                for intensity, rate in ceiling(peaks, dtype):
                    yield (kind, dtype, f"{intensity:.6g}"), rate

    def views(self, now: int, memory: Memory) -> Figure[list[DeviceView]]:
        """Views of the devices at `now`."""
        if self.backend is None:
            return Figure(None, NO_BACKEND)
        platform = self.backend.platform
        views = []
        for ordinal, kind, identity in self.backend.devices:
            peaks = self.peaks.get(kind)
            drawn = [roof(peaks, dtype) for dtype in sorted(self.dtypes)] if peaks else []
            roofs = [lines._asdict() for lines in drawn if lines is not None]
            known = Figure(peaks, peaks.reason if peaks else "not looked up yet")
            held, clocks = memory.device(ordinal, now), self._clocks(ordinal, now)
            views.append(DeviceView(ordinal, kind, identity, platform, known, roofs, held, clocks))
        return Figure(views)

    def loads(self) -> list[dict[str, Any]]:
        """How busy each device is now, and at what share of its power limit; none of which no collector reads it."""
        loads = []
        for ordinal, *_ in self.backend.devices if self.backend else ():
            if (found := read_device(self._readings, self._gauges, str(ordinal))) is not None:
                busy, power = found.known.get("utilization"), found.ratio("power")
                loads.append({"device": ordinal, "utilization_ratio": busy, "power_ratio": power})
        return loads

    def _clocks(self, ordinal: int, now: int) -> Figure[ClocksView]:
        reading = read_device(self._readings, self._gauges, str(ordinal))
        taken, recent = (reading or Reading({})).taken, self._taken[ordinal]
        recent.append((now, taken))
        while recent[0][0] < now - WINDOW:
            recent.popleft()
        if reading is None:
            return Figure(None, NO_READING)
        compute, memory = average(recent)
        clocks = ClocksView(
            figure(reading.known.get("utilization"), NOT_TOLD),
            figure(reading.ratio("clock"), NOT_TOLD),
            figure(reading.ratio("memory_clock"), NOT_TOLD),
            figure(compute, NOT_TOLD if taken[0] is None else NOT_WATCHED),
            figure(memory, NOT_TOLD if taken[1] is None else NOT_WATCHED),
            figure(reading.reasons, NOT_TOLD),
        )
        return Figure(clocks)


def read_device(readings: Iterable[DeviceReading], gauges: GaugesOf, device: str) -> Reading | None:
    """The reading of a device from the collectors' series; None where they have nothing on it."""
    values: dict[str, float] = {}
    reasons: list[str] | None = None
    for reading in readings:
        for labels, value in gauges(reading.metric.name).items():
            named = dict(zip(reading.metric.labels, labels, strict=True))
            if named["device"] != device or any(named[label] != wanted for label, wanted in reading.where):
                continue
            if reading.quantity != "throttled":
                values[reading.quantity] = value
            elif named["reason"] in reading.reasons:
                reasons = (reasons or []) + ([named["reason"]] if value > 0 else [])
    if not values and reasons is None:
        return None
    return Reading(values, None if reasons is None else tuple(sorted(reasons)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
