"""Looks up the peaks of a device that made a trace: settings, the datasheet of its kind, then the trace itself."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from typing import Any, Final

from jaxobs.hardware.known_peaks import known_peaks
from jaxobs.hardware.peak_sources import peaks_for, user_peaks
from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.trace import DeviceTrace

_MEMORY: Final = (("memory_bandwidth", 1.0), ("peak_hbm_bw_gigabytes_per_second", 1e9))
_TERAFLOPS: Final = "peak_teraflops_per_second"  # of a TPU, in bfloat16, its matrix unit's type
_SAID: Final = "the profiler, from the device"


def peaks_of(device: DeviceTrace, settings: Mapping[str, Any], jaxlib: str | None) -> Peaks:
    """The peaks of the device that made a trace. A calibration counts only if the trace was made on this host."""
    kind = device.kind or f"unknown {device.platform.upper()}"
    if device.host == socket.gethostname():
        found = known_peaks(kind, device.platform, jaxlib, settings)
    else:
        overrides = user_peaks(settings.get("peak_flops") or {}, settings.get("peak_bytes_per_second"))
        allowed = settings.get("tensorfloat32")
        found = peaks_for(kind, device.platform, overrides, tensorfloat32_allowed=allowed)
    figures = device.capabilities
    if found.memory is None:
        bandwidth = next((_number(figures, name, scale) for name, scale in _MEMORY if name in figures), None)
        if bandwidth:
            found = dataclasses.replace(found, memory=Peak(bandwidth, "profiler", _SAID))
    matrix = _number(figures, _TERAFLOPS, 1e12)
    if matrix and not found.matrix:
        found = dataclasses.replace(found, matrix={"bfloat16": Peak(matrix, "profiler", _SAID)})
    return found


def _number(figures: Mapping[str, float | str], name: str, scale: float) -> float | None:
    value = figures.get(name)
    return value * scale if isinstance(value, float) and 0 < value < float("inf") else None
