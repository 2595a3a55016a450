"""The devices of this process: their peaks and roofs, memory, and what collectors report of their clocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.derive.clocks import GaugesOf, Reading, RecentlyTaken, Taken, read_device, remark_on
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.memory import DeviceMemory, Memory
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.events import BackendFound
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure, plain
from jaxobs.model.metrics import DeviceReading
from jaxobs.roofline_model.bounds import roof

NO_BACKEND: Final = "JAX has made no backend yet"
NO_READING: Final = "no collector reads this device's clocks"
NOT_TOLD: Final = "the collector does not tell it of this device"
NOT_WATCHED: Final = "its clocks were not read for long enough"
NO_EFFICIENCY: Final = "no executable has an efficiency"


@dataclass(frozen=True, slots=True)
class PeaksView:
    """The peaks of a kind of device."""

    peaks: Peaks

    def to_dict(self) -> dict[str, Any]:
        """The peaks as plain data, each absent one with its reason."""
        absent: Figure[object] = Figure(None, self.peaks.reason or "not known of this kind of device")
        known = self.peaks.to_dict()
        reason = {"reason": known.pop("reason")}
        document: dict[str, Any] = plain(
            {name: absent if value is None else value for name, value in known.items()}
        )
        return document | reason


@dataclass(frozen=True, slots=True)
class ClocksView:
    """What collectors report of a device now, and what low clocks took from its speed in the last window.

    Beside that stand the MFU of the loop with the most wall time and the efficiency of the executable with the most
    device time, which hold for each device, as all devices of the job run the same program.
    """

    utilization_ratio: Figure[float]
    clock_ratio: Figure[float]
    memory_clock_ratio: Figure[float]
    compute_taken_ratio: Figure[float]
    memory_taken_ratio: Figure[float]
    throttle_reasons: Figure[Sequence[str]]
    mfu: Figure[float]
    function: Figure[str]
    efficiency: Figure[float]
    remark: Figure[str]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One device, by its local ordinal."""

    device: int
    kind: str
    uuid: str
    platform: str
    peaks: Figure[PeaksView]
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
        self._dtypes: set[str] = set()
        self._roofs: dict[tuple[str, str], Mapping[str, Any] | None] = {}
        self._taken: dict[int, RecentlyTaken] = {}

    def found(self, event: BackendFound) -> None:
        self.backend = event

    def bind_peaks(self, kind: str, peaks: Peaks) -> None:
        self.peaks[kind] = peaks
        self.draw_roofs(())

    def draw_roofs(self, dtypes: Iterable[str]) -> None:
        """Draw the roofs for these element types and those seen before; each is drawn once, as it does not change."""
        self._dtypes |= set(dtypes)
        for kind, peaks in self.peaks.items():
            for dtype in sorted(self._dtypes):
                if (kind, dtype) not in self._roofs:
                    drawn = roof(peaks, dtype)
                    self._roofs[kind, dtype] = drawn and drawn._asdict()

    def views(
        self, now: int, memory: Memory, loops: Iterable[LoopView], executables: Iterable[ExecutableView]
    ) -> Figure[list[DeviceView]]:
        """Views of the devices at `now`; of `executables` those with the most device time come first."""
        if self.backend is None:
            return Figure(None, NO_BACKEND)
        return Figure(
            [
                DeviceView(
                    ordinal,
                    kind,
                    identity,
                    self.backend.platform,
                    self._peaks_of(kind),
                    self._roofs_of(kind),
                    memory.device(ordinal),
                    self._clocks(ordinal, now, loops, executables),
                )
                for ordinal, kind, identity in self.backend.devices
            ]
        )

    def _clocks(
        self, ordinal: int, now: int, loops: Iterable[LoopView], executables: Iterable[ExecutableView]
    ) -> Figure[ClocksView]:
        reading = read_device(self._readings, self._gauges, str(ordinal))
        recent = self._taken.setdefault(ordinal, RecentlyTaken())
        recent.add(now, (reading or Reading()).taken)
        return clocks_view(reading, recent.average(), loops, executables)

    def _peaks_of(self, kind: str) -> Figure[PeaksView]:
        peaks = self.peaks.get(kind)
        return Figure(PeaksView(peaks), peaks.reason) if peaks else Figure(None, "not looked up yet")

    def _roofs_of(self, kind: str) -> list[Mapping[str, Any]]:
        """The roofs that the series show for this kind of device, each as its two lines."""
        return [
            drawn for (named, _), drawn in sorted(self._roofs.items()) if named == kind and drawn is not None
        ]


def clocks_view(
    reading: Reading | None, recent: Taken, loops: Iterable[LoopView], executables: Iterable[ExecutableView]
) -> Figure[ClocksView]:
    """The view of a device's clocks.

    `recent` is what low clocks took in the last window. `executables` are in order, the most device time first.
    """
    if reading is None:
        return Figure(None, NO_READING)
    loop = max(loops, key=lambda view: view.wall_seconds, default=None)
    longest = next((view for view in executables if view.efficiency.value is not None), None)
    now = reading.taken
    return Figure(
        ClocksView(
            figure(reading.utilization, NOT_TOLD),
            figure(reading.clock_ratio, NOT_TOLD),
            figure(reading.memory_clock_ratio, NOT_TOLD),
            figure(recent.compute, NOT_WATCHED if now.compute is not None else NOT_TOLD),
            figure(recent.memory, NOT_WATCHED if now.memory is not None else NOT_TOLD),
            figure(reading.reasons, NOT_TOLD),
            figure(
                loop.mfu.value if loop else None,
                (loop.mfu.reason if loop else None) or "no step has ended yet",
            ),
            figure(longest.function if longest else None, NO_EFFICIENCY),
            figure(longest.efficiency.value if longest else None, NO_EFFICIENCY),
            figure(_remark(reading, longest), "the clocks take nothing away from the efficiency"),
        )
    )


def _remark(reading: Reading, longest: ExecutableView | None) -> str | None:
    if longest is None:
        return remark_on(reading, "", None, None)
    return remark_on(reading, longest.function, longest.efficiency.value, longest.bottleneck.label)
