"""What several reports take from a snapshot's document: loops, memory, compile seconds, lines of the main thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxobs.report.units import rough_percent
from jaxobs.vocabulary.activities import COMPILE, DEVICE, DISPATCH

Document = Mapping[str, Any]

LEAST_SHARE: Final = 0.02
"""With some hundred samples a share is known to within two to four points."""

THE_DEVICES: Final = {DEVICE, DISPATCH, COMPILE}
"""Activities in which the main thread does what the device or the compiler makes it wait for."""


def longest_loops(document: Document) -> list[str]:
    """The names of its loops, that of the longest first."""
    loops = document.get("loops") or {}
    return sorted(loops, key=lambda name: -float(loops[name].get("wall_seconds") or 0.0))


def devices_with_memory(document: Document) -> list[Document]:
    """The devices whose memory in use is known."""
    return [
        device
        for device in document.get("devices") or ()
        if (device.get("memory") or {}).get("in_use_bytes") is not None
    ]


def fullest(devices: list[Document]) -> Document:
    """The one of these devices that uses the most memory."""
    return max(devices, key=lambda device: float(device["memory"]["in_use_bytes"]))


def compile_seconds(function: Document) -> float:
    """Seconds of all phases of a function's compilations, or of one; a phase that is not known adds nothing."""
    return sum(seconds or 0.0 for seconds in (function.get("seconds") or {}).values())


def all_compile_seconds(document: Document) -> float:
    """Compile seconds of all functions, with those that the document leaves out."""
    found = sum(map(compile_seconds, (document.get("functions") or {}).values()))
    return found + (document.get("functions_left_out_seconds") or 0.0)


def main_thread_shares(document: Document) -> list[tuple[str, float]]:
    """Where the main thread of a loop, or of the process, is while it does not wait for the device or a compile.

    `document` has the rows `host_lines`. The largest comes first; each has its share of all sampled time.
    """
    rows = document.get("host_lines")
    shares: dict[str, float] = {}
    for row in rows if isinstance(rows, list | tuple) else ():
        if isinstance(row, Mapping) and row.get("activity") not in THE_DEVICES:
            name = _words(row)
            shares[name] = shares.get(name, 0.0) + float(row.get("share") or 0.0)
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return [(name, share) for name, share in ranked if share >= LEAST_SHARE]


def main_thread_lines(document: Document) -> list[str]:
    """The lines with their shares in words: `train.py:88 collate 21 %`."""
    return [f"{name} {rough_percent(share)}" for name, share in main_thread_shares(document)]


def waiting_for_device(document: Document) -> float:
    """Share of all sampled time in which the main thread waited for a device."""
    rows = document.get("host_lines")
    return sum(
        float(row.get("share") or 0.0)
        for row in (rows if isinstance(rows, list | tuple) else ())
        if isinstance(row, Mapping) and row.get("activity") == DEVICE
    )


def _words(row: Document) -> str:
    """One row: the user's line, and what it waits in."""
    below = row.get("waits_in")
    return f"{row.get('line')} ({below})" if below else str(row.get("line"))
