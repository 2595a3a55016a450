"""The peaks of the devices that the job has: settings first, then what was measured or the datasheet says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxobs.model.calibration_file import cache_directory, load_calibration, this_host
from jaxobs.model.events import BackendFound
from jaxobs.model.hardware import Peaks, peaks_for, user_peaks


def peaks_of_backend(event: BackendFound, settings: Mapping[str, Any]) -> dict[str, Peaks]:
    """By device kind. Raises ValueError where the settings' peaks are no positive numbers."""
    chosen = settings.get("cache_directory")
    directory = cache_directory(Path(chosen) if chosen else None)
    overrides = user_peaks(settings.get("peak_flops") or {}, settings.get("peak_bytes_per_second"))
    found = {}
    for kind in {kind for _, kind, _ in event.devices}:
        measured, _ = load_calibration(this_host(kind, event.jaxlib_version), directory)
        found[kind] = peaks_for(
            kind,
            event.platform,
            overrides,
            measured,
            tensorfloat32_allowed=bool(settings.get("tensorfloat32")),
        )
    return found
