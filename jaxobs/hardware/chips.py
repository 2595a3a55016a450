"""The data sheets of known chips in `hardware.toml`, and the peaks of a device by them, whole or a MIG slice of one.

A device is found by the whole `device_kind` string that JAX reports, never by a part of it: "NVIDIA GH200 480GB"
contains "H200", and a device that is taken for another would always show wrong ratios.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jaxobs.hardware.peaks import Peak

GIBIBYTE: Final = 2**30
MEMORY_SLICES: Final = 8
"""Memory slices of a GPU split by MIG (NVIDIA Multi-Instance GPU User Guide, "Partitioning")."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One row of `hardware.toml`: peaks of a whole chip, dense, keyed as the file's header says.

    `values` is flat: `matrix.<dtype>`, `vector.<dtype>` in FLOP/s, `transcendentals` in results/s, `memory`
    and `link` in bytes/s, `capacity` in bytes. `sources` has the same keys.
    """

    name: str
    aliases: tuple[str, ...]
    devices_per_chip: int
    """The number of JAX devices that share one chip; each has an equal share of every value."""
    cores: int | None
    """The number of streaming multiprocessors, where the row has it."""
    clock: float | None
    """Their boost clock, Hz."""
    values: Mapping[str, float]
    sources: Mapping[str, str]
    slices: Mapping[str, Mapping[str, float]]
    """MIG profiles ("1g.10gb") whose `cores` (and `memory`, bytes/s) are known."""


def normalised(device_kind: str) -> str:
    """The string in lower case with single spaces, and otherwise unchanged."""
    return " ".join(device_kind.split()).casefold()


@cache
def known_chips() -> tuple[Chip, ...]:
    """Every row of `hardware.toml`."""
    document = tomllib.loads(files("jaxobs.hardware").joinpath("hardware.toml").read_text(encoding="utf-8"))
    return tuple(_chip(row, document["sources"]) for row in document["chip"])


@cache
def chips_by_alias() -> Mapping[str, Chip]:
    """Each normalised `device_kind` and its row."""
    return {normalised(alias): chip for chip in known_chips() for alias in chip.aliases}


def _chip(row: Mapping[str, Any], sources: Mapping[str, str]) -> Chip:
    values = {
        f"{unit}.{dtype}": float(rate)
        for unit in ("matrix", "vector")
        for dtype, rate in row.get(unit, {}).items()
    }
    values |= {
        key: float(row[key]) for key in ("transcendentals", "memory", "link", "capacity") if key in row
    }
    own: Mapping[str, str] = row.get("sources", {})
    return Chip(
        name=row["name"],
        aliases=tuple(row["aliases"]),
        devices_per_chip=row.get("devices_per_chip", 1),
        cores=row.get("cores"),
        clock=row.get("clock"),
        values=values,
        sources={key: sources[own.get(key, row["source"])] for key in values},
        slices=row.get("mig", {}),
    )


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
    note = f", one of {chip.devices_per_chip} devices of the chip" if chip.devices_per_chip > 1 else ""
    return _part(chip, chip.values, 1, chip.devices_per_chip, note), None


def _part(chip: Chip, keys: Iterable[str], share: float, of: int, note: str) -> dict[str, Peak]:
    """These values of a chip, and of each the share that a device has."""
    return {key: Peak(chip.values[key] * share / of, "datasheet", chip.sources[key] + note) for key in keys}


def _slice(chip: Chip, profile: str, memory_gibibytes: int) -> tuple[dict[str, Peak], str | None]:
    """The values of a MIG slice: memory in eighths, compute only where the number of its multiprocessors is known.

    A slice of "one seventh" has 16 of an H100's 132 multiprocessors, 0.85 of a seventh, and others differ as much, so
    the nominal fraction is not used for peaks. A slice cannot use NVLink.
    """
    capacity, known = chip.values.get("capacity"), chip.slices.get(profile, {})
    found: dict[str, Peak] = {}
    slices = round(memory_gibibytes / (capacity / GIBIBYTE / MEMORY_SLICES)) if capacity else 0
    if capacity and 1 <= slices <= MEMORY_SLICES:
        note = f", MIG slice with {slices} of {MEMORY_SLICES} parts of the memory"
        found = _part(chip, ("memory", "capacity"), slices, MEMORY_SLICES, note)
        if "memory" in known:
            found["memory"] = replace(found["memory"], value=known["memory"])
    if "cores" in known and chip.cores:
        note = f", MIG slice with {known['cores']:g} of {chip.cores} multiprocessors"
        computing = (key for key in chip.values if key.startswith(("matrix.", "vector.", "transcendentals")))
        return found | _part(chip, computing, known["cores"], chip.cores, note), None
    return found, f"how many multiprocessors the MIG slice {profile} of {chip.name} has is not known"
