"""What was compiled, what was compiled again and why, newest first."""

from __future__ import annotations

from typing import Final

from jaxobs.report.drawing import Element, tag
from jaxobs.report.page.parts import Column, Row, card, folded, last_name, table
from jaxobs.report.page.view import View
from jaxobs.report.units import duration, times

_AGAIN: Final = 12
_FUNCTIONS: Final = 40


def compilations(view: View) -> Element | None:
    """None where nothing was compiled."""
    functions = view.document.get("functions") or {}
    if not functions:
        return None
    rows = [{"name": name, **function, "all": _total(function)} for name, function in functions.items()]
    rows.sort(key=lambda row: -row["all"])
    again = [{"name": row["name"], **each} for row in rows for each in row.get("recompilations") or ()]
    again.sort(key=lambda row: -(row.get("seconds") or 0.0))
    number = sum(row.get("compilations") or 0 for row in rows)
    process = view.document.get("process") or {}
    recent = list(reversed((process.get("recent") or {}).get("compilations") or ()))
    left = len(again) - _AGAIN
    return card(
        "Compiled again" if again else "Compiled",
        table(
            _REPEATED,
            again[:_AGAIN],
            caption="Compiled again",
            more=f"{left} cheaper ones are in the snapshot." if left > 0 else "",
        )
        if again
        else tag("p", "Nothing was compiled twice."),
        folded(
            "Newest compiles",
            table(_NEWEST, recent, caption="Newest compiles, seconds ago"),
            name="newest-table",
        ),
        folded(
            f"Functions ({len(rows)})",
            table(_ALL, rows[:_FUNCTIONS], caption="Compiled functions"),
            name="functions-table",
        ),
        name="compiles",
        note=f"{number} compiles took {duration(sum(row['all'] for row in rows))}",
    )


def _total(function: Row) -> float:
    return sum(seconds or 0.0 for seconds in (function.get("seconds") or {}).values())


def _change(row: Row) -> Element | str | None:
    """`x: float32[192,512] → float32[224,512]`."""
    if row.get("old") is None and row.get("new") is None:
        return row.get("argument")
    shown = tag(
        "span", tag("code", str(row.get("old") or "?")), " → ", tag("code", str(row.get("new") or "?"))
    )
    return tag("span", tag("b", f"{row['argument']}: "), shown) if row.get("argument") else shown


def _place(row: Row) -> Element | None:
    site = row.get("call_site")
    return tag("span", last_name(site), title=str(site)) if site else None


def _phase(name: str) -> Column:
    return Column(
        name.replace("_", " "),
        lambda row: duration(seconds) if (seconds := row["seconds"].get(name)) else None,
    )


_REPEATED: Final = (
    Column("function", lambda row: row["name"], text=True),
    Column("why", lambda row: str(row.get("cause") or "").replace("_", " "), text=True),
    Column("what changed", _change, text=True),
    Column("called at", _place, text=True),
    Column("", lambda row: times(row.get("count") or 0)),
    Column("cost", lambda row: duration(row["seconds"]) if row.get("seconds") else None),
)
_NEWEST: Final = (
    Column("ago", lambda row: duration(round(row["ago"]))),
    Column("function", lambda row: row["function"], text=True),
    Column("took", lambda row: duration(_total(row))),
    Column("again because of", lambda row: (row.get("recompilation") or "").replace("_", " "), text=True),
)
_ALL: Final = (
    Column("function", lambda row: row["name"], text=True),
    Column("compiles", lambda row: f"{row.get('compilations') or 0:,}"),
    Column(
        "again", lambda row: f"{row['recompilation_count']:,}" if row.get("recompilation_count") else None
    ),
    Column("seconds", lambda row: duration(row["all"])),
    _phase("trace"),
    _phase("lower"),
    _phase("backend"),
    _phase("cache_read"),
)
