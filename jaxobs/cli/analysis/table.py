"""A report for the terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jaxobs.report.text_table import TextTable, cut, end_of, to_text
from jaxobs.report.units import ABSENT, amount, duration, or_absent, percent

_KEPT_FOLDERS = 2
_LEAST_NAME = 12
_GAP = 2  # columns between two cells
_NAMES = 3
"""Operations that a note names."""

LEAST_OVERLAP = 1.01
"""Own times over busy time, from which on the overlap is worth a note: less is in no digit that is shown."""


def report_text(document: Mapping[str, Any], *, top: int, width: int, bold: bool) -> str:
    """Devices, modules and the `top` operations by time, and what could not be told."""
    parts: list[TextTable | str] = [_devices(document), ""]
    if document["modules"]:
        parts += [_modules(document), ""]
    parts += [_operations(document, top, width)]
    hidden = len(document["operations"]) - top
    if hidden > 0:
        rest = sum(row["share"] or 0.0 for row in document["operations"][top:])
        parts.append(f"and {hidden} more operations with {percent(rest)} of the busy time (--top, --json)")
    notes = [*notes_of(document), *notes_on_efficiency(document["operations"][:top])]
    if notes:
        parts += ["", *notes]
    if document["advice"]:
        parts += ["", *(f"→ {piece['sentence']} {piece['remedy']}" for piece in document["advice"])]
    return to_text(parts, width=width, bold=bold)


def notes_of(document: Mapping[str, Any]) -> list[str]:
    """What could not be seen, was left out, or is missing, each once."""
    notes = [note for host in document["hosts"] for note in host["notes"]]
    for device in document["devices"]:
        notes += [f"{device['name']}: {note}" for note in device["notes"]]
        if device["peaks"]["reason"]:
            notes.append(device["peaks"]["reason"])
    share = document["unmodelled_share"]
    if share:
        notes.append(f"{percent(share)} of the busy time is in operations without a known cost")
    own = sum(row["self_seconds"] for row in document["operations"])
    if own > LEAST_OVERLAP * document["busy_seconds"]:
        notes.append(
            "operations ran side by side: each moment is divided equally between them, so that times add up to the busy "
            "time; FLOP/s and efficiency are over these parts"
        )
    return list(dict.fromkeys(notes))


def notes_on_efficiency(operations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why operations were faster than their bound, once for each reason."""
    faster: dict[str, list[str]] = {}
    for row in operations:
        if row["efficiency"] is not None and row["efficiency"] > 1:
            faster.setdefault(row["efficiency_reason"], []).append(row["name"])
    notes = []
    for reason, names in faster.items():
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        notes.append(f"efficiency above 100 %, {', '.join(names[:_NAMES])}{more}: {reason}")
    return notes


def bound_of(row: Mapping[str, Any]) -> str:
    """What limits an operation; `cache_resident` where device memory would, and was not waited for."""
    return "cache_resident" if row["bound"] == "cache_resident" else str(row["label"])


def where(row: Mapping[str, Any], folders: int = _KEPT_FOLDERS) -> str:
    """The source line with the last folders of its path, else the named scope."""
    path = re.split(r"[\\/]", row["source"])
    return "/".join(path[-folders:]) if row["source"] else row["scope"]


def _devices(document: Mapping[str, Any]) -> TextTable:
    columns = ("device", "kind", "span", "busy", "idle", "communication", "exposed", "transfer", "MFU")
    table = TextTable(columns, left=("kind",))
    several = len({device["host"] for device in document["devices"]}) > 1
    for device in document["devices"]:
        name = f"{device['host']} {device['name']}" if several else device["name"]
        table.add(
            name,
            device["device_kind"] or ABSENT,
            or_absent(device["span_seconds"], duration),
            or_absent(device["busy_seconds"], duration),
            or_absent(device["idle_seconds"], duration),
            or_absent(device["collective_seconds"], duration),
            or_absent(device["exposed_communication_seconds"], duration),
            or_absent(device["transfer_seconds"], duration),
            or_absent(device["mfu"], percent),
        )
    return table


def _modules(document: Mapping[str, Any]) -> TextTable:
    columns = ("module", "devices", "runs", "time", "share", "FLOP", "bytes", "efficiency", "bound")
    table = TextTable(columns)
    for row in document["modules"]:
        table.add(
            row["name"],
            str(row["devices"]),
            ABSENT if row["runs"] is None else str(row["runs"]),
            or_absent(row["seconds"], duration),
            or_absent(row["share"], percent),
            or_absent(row["flops"], amount),
            or_absent(row["bytes"], amount, "B"),
            or_absent(row["efficiency"], percent),
            row["bound"] or ABSENT,
        )
    return table


def _operations(document: Mapping[str, Any], top: int, width: int) -> TextTable:
    columns = ("operation", "runs", "time", "share", "FLOP/s", "FLOP/B", "efficiency", "bound", "source")
    rows = [
        [
            row["name"],
            str(row["executions"]),
            or_absent(row["seconds"], duration),
            or_absent(row["share"], percent),
            or_absent(row["achieved_flops_per_second"], amount),
            or_absent(row["intensity"], amount),
            or_absent(row["efficiency"], percent),
            bound_of(row),
            where(row),
        ]
        for row in document["operations"][:top]
    ]
    widest = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    # Figures are shown whole; what gives way is the names, the source's more than the operation's.
    left = width - _GAP * (len(columns) - 1) - sum(widest[1:-1])
    name = min(widest[0], max(_LEAST_NAME, left * 3 // 5))
    source = min(widest[-1], max(_LEAST_NAME, left - name))
    table = TextTable(columns, left=("bound", "source"))
    for cells in rows:
        table.add(cut(cells[0], name), *cells[1:-1], end_of(cells[-1], source))
    return table
