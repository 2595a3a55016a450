"""What is shown of a device: peaks, roofs, memory and clocks; each figure has a value or a reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.derive.devices.throttling import Reading, Taken, remark_on
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.memory.view import DeviceMemory
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure, plain

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
    platform: str
    peaks: Figure[PeaksView]
    roofs: Sequence[Mapping[str, Any]]
    """The roofs that the series show, each as its two lines."""
    memory: Figure[DeviceMemory] = field(metadata=REASON_WHERE_ABSENT)
    clocks: Figure[ClocksView]


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
