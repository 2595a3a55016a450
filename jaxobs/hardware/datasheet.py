"""Peaks from the datasheet of a chip whose `device_kind` is known, whole or a MIG slice of it."""

from __future__ import annotations

import re
from typing import Final

from jaxobs.hardware.chips import GIBIBYTE, MEMORY_SLICES, Chip, chips_by_alias, normalised
from jaxobs.hardware.peaks import Peak

_MIG: Final = re.compile(r"(?P<chip>.+) mig (?P<profile>\dg\.(?P<memory>\d+)gb)")


def datasheet_peaks(device_kind: str) -> tuple[dict[str, Peak], str | None]:
    """The datasheet's values for one device, and a note if some of them are unknown."""
    name = normalised(device_kind)
    slice_of = _MIG.fullmatch(name)
    chip = chips_by_alias().get(slice_of["chip"] if slice_of else name)
    if chip is None:
        return {}, None
    if slice_of:
        return _slice(chip, slice_of["profile"], int(slice_of["memory"]))
    share = f", one of {chip.devices_per_chip} devices of the chip" if chip.devices_per_chip > 1 else ""
    return {
        key: Peak(rate / chip.devices_per_chip, "datasheet", chip.sources[key] + share)
        for key, rate in chip.values.items()
    }, None


def _slice(chip: Chip, profile: str, memory_gibibytes: int) -> tuple[dict[str, Peak], str | None]:
    """The values of a MIG slice: memory in eighths, compute only where the number of its multiprocessors is known.

    A slice of "one seventh" has 16 of an H100's 132 multiprocessors, 0.85 of a seventh, and others differ as much, so
    the nominal fraction is not used for peaks. A slice cannot use NVLink.
    """
    capacity, cores = chip.values.get("capacity"), chip.slices.get(profile, {}).get("cores")
    found: dict[str, Peak] = {}
    slices = round(memory_gibibytes / (capacity / GIBIBYTE / MEMORY_SLICES)) if capacity else 0
    if capacity and 1 <= slices <= MEMORY_SLICES:
        rate = chip.slices.get(profile, {}).get("memory") or chip.values["memory"] * slices / MEMORY_SLICES
        part = f", MIG slice with {slices} of {MEMORY_SLICES} parts of the memory"
        found["memory"] = Peak(rate, "datasheet", chip.sources["memory"] + part)
        found["capacity"] = Peak(
            capacity * slices / MEMORY_SLICES, "datasheet", chip.sources["capacity"] + part
        )
    if cores and chip.cores:
        part = f", MIG slice with {cores:g} of {chip.cores} multiprocessors"
        found |= {
            key: Peak(rate * cores / chip.cores, "datasheet", chip.sources[key] + part)
            for key, rate in chip.values.items()
            if key.startswith(("matrix.", "vector.")) or key == "transcendentals"
        }
        return found, None
    return found, f"how many multiprocessors the MIG slice {profile} of {chip.name} has is not known"
