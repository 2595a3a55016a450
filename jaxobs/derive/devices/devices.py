"""The devices of this process, their peaks, and the roof they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from jaxobs.derive.devices.throttling import Reading, Taken, TakenLately, read_device
from jaxobs.derive.metrics.catalogue import device_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.device_readings import DeviceReading
from jaxobs.model.events import BackendFound
from jaxobs.roofline_model.ceiling import ceiling, roof


class Devices:
    """What the backend has, and its peaks by device kind."""

    def __init__(self, series: Series, readings: tuple[DeviceReading, ...] = ()) -> None:
        self._series = series
        self._readings = readings
        self.backend: BackendFound | None = None
        self.peaks: dict[str, Peaks] = {}
        self._dtypes: set[str] = set()
        self._roofs: set[tuple[str, str]] = set()
        self._taken: dict[int, TakenLately] = {}

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
        """The roof for element types that were seen; drawn once, as it does not change."""
        self._dtypes |= set(dtypes)
        for kind, peaks in self.peaks.items():
            for dtype in sorted(self._dtypes):
                if (kind, dtype) in self._roofs:
                    continue
                self._roofs.add((kind, dtype))
                for intensity, rate in ceiling(peaks, dtype):
                    self._series.set(device_metrics.CEILING, (kind, dtype, f"{intensity:.6g}"), rate)

    def read(self, ordinal: int) -> Reading | None:
        """What collectors say of a device now."""
        return read_device(self._readings, self._series.gauges, str(ordinal))

    def update(self, now: int) -> None:
        """Show what collectors say of every device under the core's own names."""
        ordinals = [ordinal for ordinal, _, _ in self.backend.devices] if self.backend else []
        read = {str(ordinal): self.read(ordinal) or Reading() for ordinal in ordinals}
        for ordinal in ordinals:
            self._taken.setdefault(ordinal, TakenLately()).add(now, read[str(ordinal)].taken)
        for metric, values in (
            (device_metrics.DEVICE_UTILIZATION, {device: told.utilization for device, told in read.items()}),
            (device_metrics.DEVICE_CLOCK, {device: told.clock_ratio for device, told in read.items()}),
        ):
            self._series.replace(metric, (((device,), value) for device, value in values.items()))
        held = (((device, reason), 1.0) for device, told in read.items() for reason in told.reasons or ())
        self._series.replace(device_metrics.DEVICE_THROTTLED, held)

    def document(
        self,
        memory: Callable[[int], dict[str, Any]],
        clocks: Callable[[Reading | None, Taken], dict[str, Any]],
    ) -> list[dict[str, Any]] | None:
        """One entry a device; `memory` says what is known of the memory of the device with that ordinal.

        `clocks` says what is known beside what collectors say of it.
        """
        if self.backend is None:
            return None
        return [
            {
                "device": ordinal,
                "kind": kind,
                "platform": self.backend.platform,
                "peaks": _with_reasons(self.peaks[kind]) if kind in self.peaks else None,
                "peaks_reason": self.peaks[kind].reason if kind in self.peaks else "not looked up yet",
                "roofs": self._roofs_of(kind),
                **memory(ordinal),
                **clocks(self.read(ordinal), self._taken_lately(ordinal)),
            }
            for ordinal, kind, _ in self.backend.devices
        ]

    def _roofs_of(self, kind: str) -> list[dict[str, Any]]:
        """The same roofs as the series show, each by its two lines."""
        drawn = [roof(self.peaks[kind], dtype) for named, dtype in sorted(self._roofs) if named == kind]
        return [each._asdict() for each in drawn if each is not None]

    def _taken_lately(self, ordinal: int) -> Taken:
        return self._taken[ordinal].average() if ordinal in self._taken else Taken()


def _with_reasons(peaks: Peaks) -> dict[str, Any]:
    """Peaks as plain data, each absent one with its reason."""
    document = peaks.to_dict()
    for name in [name for name, value in document.items() if value is None and name != "reason"]:
        document[f"{name}_reason"] = peaks.reason or "not known of this kind of device"
    return document
