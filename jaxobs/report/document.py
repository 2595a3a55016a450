"""What several reports take from a snapshot's document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Document = Mapping[str, Any]


def longest_loops(document: Document) -> list[str]:
    """The names of its loops, that of the longest first."""
    loops = document.get("loops") or {}
    return sorted(loops, key=lambda name: -float(loops[name].get("wall_seconds") or 0.0))


def devices_with_memory(document: Document) -> list[Document]:
    """Those whose memory in use is known."""
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
    """The same of all functions, with those that the document leaves out."""
    found = sum(map(compile_seconds, (document.get("functions") or {}).values()))
    return found + (document.get("functions_left_out_seconds") or 0.0)
