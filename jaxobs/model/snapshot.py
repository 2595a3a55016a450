"""The folded state of the training process at one moment, as plain data, and what several readers ask of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from jaxobs.model.figure import Figure
from jaxobs.model.metrics import Family
from jaxobs.vocabulary.activities import COMPILE, DEVICE, DISPATCH
from jaxobs.vocabulary.units import rough_percent

Document = Mapping[str, Any]
"""A snapshot as plain data. A value that is not known is None and has a sibling `…_reason`."""

DOCUMENT_KEYS: Final = (
    "process", "hangs", "slowdowns", "loops", "functions", "executables", "operations", "device_time",
    "memory_peaks", "devices", "sources", "advice", "agent",
)  # fmt: skip
"""The keys of every snapshot's document."""

MIN_SHARE: Final = 0.02
"""Share below which a main thread line is not shown: with some hundred samples it is known to two to four points."""

LONG_COMPILING: Final = 3.0
"""Sampled seconds from which on compiling at a line is shown: twice the longest time that one sample stands for."""

DEVICE_ACTIVITIES: Final = frozenset({DEVICE, DISPATCH, COMPILE})
"""Activities in which the main thread waits for the device, dispatches to it, or compiles."""


@dataclass(frozen=True, slots=True, repr=False)
class SnapshotData:
    """What was known at `time` (monotonic nanoseconds): the document, and the metric families for exporters.

    A snapshot that came from another process has no families.
    """

    time: int
    written: Document | Callable[[], Document]
    """The document, or a function that makes it, because most documents are never read."""
    families: tuple[Family, ...] = field(default=(), repr=False)

    @property
    def document(self) -> Document:
        """The snapshot as plain data with DOCUMENT_KEYS; made when first requested, on the thread that requests it."""
        written = self.written  # read once: another thread may write it meanwhile
        if callable(written):
            written = written()
            object.__setattr__(self, "written", written)
        return written

    def to_json(self, indent: int | None = None) -> str:
        """The document as strict JSON (no NaN or infinity). Raises ValueError if one is in it: that is a defect."""
        return json.dumps(self.document, indent=indent, allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """A copy of the document that the caller may change."""
        copied: dict[str, Any] = json.loads(self.to_json())
        return copied

    def served_no_more(self) -> Self:
        """This snapshot without the address of `/metrics`, for a job that is over."""
        process = self.document.get("process")
        if not process or not process.get("address"):
            return self
        over = Figure(None, f"the job is over; metrics were at {process['address']}").under("address")
        return replace(self, written={**self.document, "process": {**process, **over}})

    def __getitem__(self, key: str) -> Any:
        return self.document[key]


def absent_document(reason: str) -> dict[str, Any]:
    """A document in which everything is absent, for one reason."""
    document: dict[str, Any] = {}
    for key in DOCUMENT_KEYS:
        document |= Figure(None, reason).under(key)
    return document


def longest_loops(document: Document) -> list[str]:
    """The names of the loops in a document, the one with the most wall time first."""
    loops = document.get("loops") or {}
    return sorted(loops, key=lambda name: -float(loops[name].get("wall_seconds") or 0.0))


def devices_with_memory(document: Document) -> list[Document]:
    """The devices whose memory in use is known."""
    devices = document.get("devices") or ()
    return [each for each in devices if (each.get("memory") or {}).get("in_use_bytes") is not None]


def fullest(devices: list[Document]) -> Document:
    """The device that has the most memory in use."""
    return max(devices, key=lambda device: float(device["memory"]["in_use_bytes"]))


def executable_size(executable: Document) -> tuple[float, float]:
    """Sorting key by size: device seconds, else FLOPs."""
    flops = (executable.get("cost") or {}).get("flops")
    return float(executable.get("seconds") or 0.0), float(flops or 0.0)


def compile_seconds(function: Document) -> float:
    """Seconds in all phases of a function's compilations, or of a single one; an unknown phase adds nothing."""
    return sum(seconds or 0.0 for seconds in (function.get("seconds") or {}).values())


def all_compile_seconds(document: Document) -> float:
    """Compile seconds of all functions, including those that the document does not list."""
    found = sum(map(compile_seconds, (document.get("functions") or {}).values()))
    return found + (document.get("functions_left_out_seconds") or 0.0)


def main_thread_shares(document: Document) -> list[tuple[str, float]]:
    """The lines that the main thread is at while it does not wait for the device or a compile, the largest share first.

    `document` is that of a loop or of the process, with the rows `host_lines`. Shares are of what was sampled of late.
    """
    shares: dict[str, float] = {}
    for row in document.get("host_lines") or ():
        if row["activity"] not in DEVICE_ACTIVITIES:
            name = f"{row['line']} ({row['waits_in']})" if row["waits_in"] else str(row["line"])
            shares[name] = shares.get(name, 0.0) + float(row["share"])
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return [(name, share) for name, share in ranked if share >= MIN_SHARE]


def main_thread_lines(document: Document) -> list[str]:
    """The main thread's lines with their shares in words, such as `train.py:88 collate 21 %`."""
    return [f"{name} {rough_percent(share)}" for name, share in main_thread_shares(document)]


def compiling_lines(document: Document) -> list[tuple[str, float]]:
    """The lines at which the main thread traced, lowered or compiled for long, with the seconds, the longest first."""
    spent: dict[str, float] = {}
    for row in document.get("host_lines") or ():
        if row["activity"] == COMPILE:
            spent[row["line"]] = spent.get(row["line"], 0.0) + float(row["seconds"])
    return sorted((one for one in spent.items() if one[1] >= LONG_COMPILING), key=lambda one: -one[1])


def waiting_for_device(document: Document) -> float:
    """Share of the time sampled of late in which the main thread waited for a device."""
    rows = document.get("host_lines") or ()
    return sum(float(row["share"]) for row in rows if row["activity"] == DEVICE)
