"""Columns and rows of the tables of compilations: what was compiled, and what was compiled again and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaxobs.model.snapshot import compile_seconds
from jaxobs.report.columns.column import Column, Row, computed, figure, last_name
from jaxobs.report.drawing import Element, tag
from jaxobs.vocabulary.units import count, duration, times
from jaxobs.vocabulary.words import PHASES


def functions(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each compiled function, the one that took longest first; `all` is its seconds in all phases."""
    found = document.get("functions") or {}
    rows = [{"name": name, **function, "all": compile_seconds(function)} for name, function in found.items()]
    return sorted(rows, key=lambda row: -float(row["all"]))


def recompilations(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each change that caused recompilations of these functions, the most expensive first."""
    again = [{"name": row["name"], **each} for row in rows for each in row.get("recompilations") or ()]
    return sorted(again, key=lambda row: -float(row.get("seconds") or 0.0))


def newest(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each of the newest compilations, the newest first.

    `change` is the row of recompilations that explains it; None where the function was recompiled for several changes
    of the same kind, as the snapshot does not tell which of them it was.
    """
    process = document.get("process") or {}
    compiled = reversed((process.get("recent") or {}).get("compilations") or ())
    return [{**row, "change": _change_of(document, row)} for row in compiled]


def _change_of(document: Mapping[str, Any], row: Row) -> Row | None:
    function = (document.get("functions") or {}).get(row.get("function")) or {}
    alike = [
        each for each in function.get("recompilations") or () if each.get("cause") == row.get("recompilation")
    ]
    return alike[0] if len(alike) == 1 else None


def _change(row: Row) -> Element | str | None:
    """What changed, such as `x: float32[192,512] → float32[224,512]`."""
    if row.get("old") is None and row.get("new") is None:
        return row.get("argument")
    shown = tag(
        "span", tag("code", str(row.get("old") or "?")), " → ", tag("code", str(row.get("new") or "?"))
    )
    return tag("span", tag("b", f"{row['argument']}: "), shown) if row.get("argument") else shown


def _place(row: Row) -> Element | None:
    site = row.get("call_site")
    return tag("span", last_name(site), title=str(site)) if site else None


def _seconds(spent: float) -> str:
    return duration(spent) if spent else ""


AGAIN: Final = (
    Column("function", lambda row: row["name"], text=True),
    Column("why", lambda row: str(row.get("cause") or "").replace("_", " "), text=True),
    Column("what changed", _change, text=True),
    Column("called at", _place, text=True),
    Column("", lambda row: times(row.get("count") or 0), value=lambda row: row.get("count") or 0),
    figure("cost", "seconds", _seconds),
)
NEWEST: Final = (
    Column("ago", lambda row: duration(round(row["ago"])), value=lambda row: row["ago"]),
    Column("function", lambda row: row["function"], text=True),
    computed("took", compile_seconds, duration),
    Column("again because of", lambda row: (row.get("recompilation") or "").replace("_", " "), text=True),
    Column("what changed", lambda row: _change(row["change"]) if row.get("change") else None, text=True),
    Column("called at", lambda row: _place(row["change"]) if row.get("change") else None, text=True),
)
FUNCTIONS: Final = (
    Column("function", lambda row: row["name"], text=True),
    Column(
        "compiles", lambda row: count(row.get("compilations") or 0), value=lambda row: row.get("compilations")
    ),
    figure("again", "recompilation_count", lambda number: count(number) if number else ""),
    figure("seconds", "all", _seconds),
    *(figure(phase.replace("_", " "), phase, _seconds, "seconds") for phase in PHASES),
)
