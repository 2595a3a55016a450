"""Looks up a device's peaks in the settings, the datasheet and a stored calibration, in that order of precedence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxobs.hardware.calibration_file import NoHomeError, cache_directory, load_calibration, this_host
from jaxobs.hardware.peak_sources import peaks_for, user_peaks
from jaxobs.hardware.peaks import Peaks


def known_peaks(kind: str, platform: str, jaxlib: str | None, settings: Mapping[str, Any]) -> Peaks:
    """The peaks of one device of this host.

    `settings` are `Settings` as plain data, of which `peak_flops`, `peak_bytes_per_second`, `tensorfloat32` and
    `cache_directory` are read. Raises ValueError where the peaks among them are no positive, finite numbers.
    """
    chosen = settings.get("cache_directory")
    measured, homeless = None, ""
    try:
        measured, _ = load_calibration(
            this_host(kind, jaxlib), cache_directory(Path(chosen) if chosen else None)
        )
    except NoHomeError as error:
        homeless = str(error)
    overrides = user_peaks(settings.get("peak_flops") or {}, settings.get("peak_bytes_per_second"))
    peaks = peaks_for(
        kind, platform, overrides, measured, tensorfloat32_allowed=settings.get("tensorfloat32")
    )
    return replace(peaks, reason=f"{peaks.reason}; {homeless}") if peaks.reason and homeless else peaks
