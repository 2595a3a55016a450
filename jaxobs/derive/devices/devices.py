"""The devices of this process, their peaks, and the roofs drawn from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaxobs.derive.devices.throttling import Reading, RecentlyTaken, read_device
from jaxobs.derive.devices.view import DeviceView, PeaksView, clocks_view
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.memory.usage import Memory
from jaxobs.derive.metrics.catalogue import device_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.events import BackendFound
from jaxobs.model.figure import Figure
from jaxobs.model.metrics import DeviceReading
from jaxobs.roofline_model.bounds import ceiling, roof

NO_BACKEND = "JAX has made no backend yet"


class Devices:
    """The backend's devices, their peaks by device kind, and what collectors report of them."""

    def __init__(self, series: Series, readings: tuple[DeviceReading, ...]) -> None:
        self._series = series
        self._readings = readings
        self.backend: BackendFound | None = None
        self.peaks: dict[str, Peaks] = {}
        self._dtypes: set[str] = set()
        self._roofs: dict[tuple[str, str], Mapping[str, Any] | None] = {}
        self._taken: dict[int, RecentlyTaken] = {}
        self._read: dict[int, Reading | None] = {}
        """What collectors reported of each device at the last update."""

    def found(self, event: BackendFound) -> None:
        self.backend = event
        for ordinal, kind, identity in event.devices:
            self._series.set(device_metrics.DEVICE_INFO, (str(ordinal), kind, identity), 1.0)

    def bind_peaks(self, kind: str, peaks: Peaks) -> None:
        self.peaks[kind] = peaks
        for ordinal, device_kind, _ in self.backend.devices if self.backend else ():
            if device_kind != kind:
                continue
            for dtype, peak in peaks.matrix.items():
                self._series.set(device_metrics.PEAK_FLOPS, (str(ordinal), dtype), peak.value)
                self._series.set(device_metrics.PEAK_INFO, (str(ordinal), dtype, peak.provenance), 1.0)
            if peaks.memory is not None:
                self._series.set(device_metrics.PEAK_BYTES, (str(ordinal),), peaks.memory.value)
                self._series.set(
                    device_metrics.PEAK_INFO, (str(ordinal), "memory", peaks.memory.provenance), 1.0
                )
        self.draw_roofs(())

    def draw_roofs(self, dtypes: Iterable[str]) -> None:
        """Draw the roofs for these element types and those seen before; each is drawn once, as it does not change."""
        self._dtypes |= set(dtypes)
        for kind, peaks in self.peaks.items():
            for dtype in sorted(self._dtypes):
                if (kind, dtype) in self._roofs:
                    continue
                drawn = roof(peaks, dtype)
                self._roofs[kind, dtype] = drawn and drawn._asdict()
                for intensity, rate in ceiling(peaks, dtype):
                    self._series.set(device_metrics.CEILING, (kind, dtype, f"{intensity:.6g}"), rate)

    def update(self, now: int) -> None:
        """Set the core's own series from what collectors report of every device."""
        self._read = {
            ordinal: read_device(self._readings, self._series.gauges, str(ordinal))
            for ordinal, _, _ in (self.backend.devices if self.backend else ())
        }
        known = {(str(ordinal),): reading or Reading() for ordinal, reading in self._read.items()}
        for ordinal in self._read:
            self._taken.setdefault(ordinal, RecentlyTaken()).add(now, known[str(ordinal),].taken)
        utilization = ((labels, each.utilization) for labels, each in known.items())
        self._series.replace(device_metrics.DEVICE_UTILIZATION, utilization)
        clocks = ((labels, each.clock_ratio) for labels, each in known.items())
        self._series.replace(device_metrics.DEVICE_CLOCK, clocks)
        throttled = (((*labels, why), 1.0) for labels, each in known.items() for why in each.reasons or ())
        self._series.replace(device_metrics.DEVICE_THROTTLED, throttled)

    def views(
        self, memory: Memory, loops: Iterable[LoopView], executables: Iterable[ExecutableView]
    ) -> Figure[list[DeviceView]]:
        """Views of the devices at the last `update`; of `executables` those with the most device time come first."""
        if self.backend is None:
            return Figure(None, NO_BACKEND)
        return Figure(
            [
                DeviceView(
                    ordinal,
                    kind,
                    self.backend.platform,
                    self._peaks_of(kind),
                    self._roofs_of(kind),
                    memory.device(ordinal),
                    clocks_view(self._read[ordinal], self._taken[ordinal].average(), loops, executables),
                )
                for ordinal, kind, _ in self.backend.devices
            ]
        )

    def _peaks_of(self, kind: str) -> Figure[PeaksView]:
        peaks = self.peaks.get(kind)
        return Figure(PeaksView(peaks), peaks.reason) if peaks else Figure(None, "not looked up yet")

    def _roofs_of(self, kind: str) -> list[Mapping[str, Any]]:
        """The roofs that the series show for this kind of device, each as its two lines."""
        return [
            drawn for (named, _), drawn in sorted(self._roofs.items()) if named == kind and drawn is not None
        ]
