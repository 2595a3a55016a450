"""Reads and checks the data sheets of known chips in `hardware.toml`.

A device is found by the whole `device_kind` string that JAX reports, never by a part of it: "NVIDIA GH200 480GB"
contains "H200", and a device that is taken for another would always show wrong ratios.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

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
    """Every row of `hardware.toml`. Raises ValueError naming the row and the fault if the file is wrong."""
    document = tomllib.loads(files("jaxobs.hardware").joinpath("hardware.toml").read_text(encoding="utf-8"))
    return tuple(_chip(row, document["sources"]) for row in document["chip"])


@cache
def chips_by_alias() -> Mapping[str, Chip]:
    """Each normalised `device_kind` and its row. Raises ValueError if two rows claim the same string."""
    found: dict[str, Chip] = {}
    for chip in known_chips():
        for alias in chip.aliases:
            other = found.setdefault(normalised(alias), chip)
            if other is not chip:
                raise ValueError(f"hardware.toml: {alias!r} is an alias of both {other.name} and {chip.name}")
    return found


def _chip(row: Mapping[str, Any], sources: Mapping[str, str]) -> Chip:
    values = dict(_flat(row))
    own: Mapping[str, str] = row.get("sources", {})
    unknown = [key for key in own if key not in values]
    if unknown:
        raise ValueError(f"hardware.toml, {row['name']}: a source for {unknown}, which the row lacks")
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


def _flat(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for unit in ("matrix", "vector"):
        for dtype, rate in row.get(unit, {}).items():
            yield f"{unit}.{dtype}", float(rate)
    for key in ("transcendentals", "memory", "link", "capacity"):
        if key in row:
            yield key, float(row[key])
