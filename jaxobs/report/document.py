"""Reads documents of others, and of a snapshot's what several reports need: loops, memory, compile times, host lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from jaxobs.report.units import rough_percent
from jaxobs.vocabulary.activities import COMPILE, DEVICE, DISPATCH
from jaxobs.vocabulary.text import printable

Document = Mapping[str, Any]

LEAST_SHARE: Final = 0.02
"""Least share of a main thread line that is shown: with some hundred samples it is known to two to four points."""

THE_DEVICES: Final = {DEVICE, DISPATCH, COMPILE}
"""Activities in which the main thread waits for the device, dispatches to it, or compiles."""


MAX_DEPTH: Final = 64
"""Deepest nesting of a document that is read; snapshots and records have ten levels."""

MAX_NUMBER: Final = 1e300
"""Largest number that is read: above it sums and products of a few figures are no numbers any more."""


def read_json(data: bytes) -> Any:
    """What a JSON document of somebody else says, with printable text alone.

    Raises ValueError, which says what is wrong, for what is no strict JSON: NaN, a key given twice, numbers beyond
    MAX_NUMBER, and nesting beyond MAX_DEPTH.
    """
    try:
        return _checked(json.loads(data, parse_constant=_refuse, object_pairs_hook=_object), 0)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def printable_document(content: Any) -> Any:
    """Plain data with printable text alone."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, Mapping):
        return {printable(str(key)): printable_document(value) for key, value in content.items()}
    return [printable_document(value) for value in content] if isinstance(content, list | tuple) else content


def _checked(content: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: _checked(value, depth + 1) for key, value in content.items()}
    if isinstance(content, list):
        return [_checked(value, depth + 1) for value in content]
    if isinstance(content, int | float) and not abs(content) <= MAX_NUMBER:
        raise ValueError("a number in it is too large")
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {printable(key): value for key, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def longest_loops(document: Document) -> list[str]:
    """The names of the loops in a document, the one with the most wall time first."""
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

    `document` is that of a loop or of the process, with the rows `host_lines`. Shares are of all sampled time.
    """
    shares: dict[str, float] = {}
    for row in _host_lines(document):
        if row.get("activity") not in THE_DEVICES:
            name = _words(row)
            shares[name] = shares.get(name, 0.0) + float(row.get("share") or 0.0)
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return [(name, share) for name, share in ranked if share >= LEAST_SHARE]


def main_thread_lines(document: Document) -> list[str]:
    """The main thread's lines with their shares in words, such as `train.py:88 collate 21 %`."""
    return [f"{name} {rough_percent(share)}" for name, share in main_thread_shares(document)]


def waiting_for_device(document: Document) -> float:
    """Share of all sampled time in which the main thread waited for a device."""
    return sum(
        float(row.get("share") or 0.0) for row in _host_lines(document) if row.get("activity") == DEVICE
    )


def _host_lines(document: Document) -> list[Document]:
    rows = document.get("host_lines")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []


def _words(row: Document) -> str:
    """A row in words: the user's line, and what it waits in."""
    below = row.get("waits_in")
    return f"{row.get('line')} ({below})" if below else str(row.get("line"))
