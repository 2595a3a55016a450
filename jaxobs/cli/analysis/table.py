"""Writes a report for the terminal, and has the columns of devices, modules, scopes and operations for the page too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from jaxobs.report.columns import Column, Row, figure, plain_table, text
from jaxobs.report.text_table import TextTable, cut, end_of, to_text
from jaxobs.vocabulary.units import amount, duration, percent

_KEPT_FOLDERS: Final = 2


def bound_of(row: Row) -> str:
    """The bound of an operation; `cache_resident` where it would be memory, but the data was in cache."""
    return "cache_resident" if row["bound"] == "cache_resident" else str(row["label"])


def where(row: Row) -> str:
    """The source line with the last folders of its path, or else the named scope."""
    path = re.split(r"[\\/]", row["source"])
    return "/".join(path[-_KEPT_FOLDERS:]) if row["source"] else str(row["scope"])


DEVICE_NAME: Final = Column("device", lambda row: f"{row['host']} {row['name']}".strip())
DEVICE_FIGURES: Final = (
    text("kind", "device_kind"),
    figure("span", "span_seconds", duration),
    figure("busy", "busy_seconds", duration),
    figure("idle", "idle_seconds", duration),
    figure("communication", "collective_seconds", duration),
    figure("exposed", "exposed_communication_seconds", duration),
    figure("transfer", "transfer_seconds", duration),
    figure("MFU", "mfu", percent),
    figure("HFU", "hfu", percent),
)
_FIGURES: Final = (
    figure("time", "seconds", duration),
    figure("share", "share", percent),
    figure("FLOP", "flops", amount),
    figure("bytes", "bytes", lambda size: amount(size, "B")),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("B/s", "achieved_bytes_per_second", amount),
    figure("FLOP/B", "intensity", amount),
    figure("efficiency", "efficiency", percent),
)
MODULES: Final = (
    Column("module", lambda row: row["name"]),
    figure("devices", "devices", str),
    figure("runs", "runs", str),
    *_FIGURES,
    text("bound", "bound"),
)
SCOPES: Final = (Column("scope", lambda row: row["scope"]), *_FIGURES, text("bound", "bound"))
OPERATION_FIGURES: Final = (
    figure("runs", "executions", str),
    *_FIGURES,
    Column("bound", bound_of, text=True),
)

_LEAST_NAME = 12
_GAP = 2  # columns between two cells
_NAMES = 3
"""Most operations that a note names."""

LEAST_OVERLAP = 1.01
"""Ratio of the operations' own times to the busy time above which a note mentions the overlap: less is not visible."""


def report_text(document: Mapping[str, Any], *, top: int, width: int, bold: bool) -> str:
    """The text of a report: devices, modules, the `top` operations by time, and notes."""
    parts: list[TextTable | str] = [_devices(document), ""]
    if document["modules"]:
        parts += [_table(MODULES, document["modules"], {"FLOP/s", "B/s", "FLOP/B"}), ""]
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
    """Notes on what could not be seen, was left out, or is missing, each once."""
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


def _devices(document: Mapping[str, Any]) -> TextTable:
    several = len({device["host"] for device in document["devices"]}) > 1
    name = DEVICE_NAME if several else text("device", "name")
    return _table((name, *DEVICE_FIGURES), document["devices"], {"HFU"})


def _operations(document: Mapping[str, Any], top: int, width: int) -> TextTable:
    """The table of operations. Figures are shown in full; names are shortened to fit, sources more than operations."""
    columns = (text("operation", "name"), *OPERATION_FIGURES, Column("source", where, text=True))
    table = _table(columns, document["operations"][:top], {"FLOP", "bytes", "B/s"})
    widest = [max(map(len, cells)) for cells in zip(table.columns, *table.rows, strict=True)]
    left = width - _GAP * (len(widest) - 1) - sum(widest[1:-1])
    name = min(widest[0], max(_LEAST_NAME, left * 3 // 5))
    source = min(widest[-1], max(_LEAST_NAME, left - name))
    table.rows = [(cut(cells[0], name), *cells[1:-1], end_of(cells[-1], source)) for cells in table.rows]
    return table


def _table(columns: Sequence[Column], rows: Sequence[Row], left_out: Set[str]) -> TextTable:
    """A table of rows; `left_out` are the titles of columns for which only the page has room."""
    return plain_table([column for column in columns if column.title not in left_out], rows)
