"""Compares what was compiled and recompiled in both runs: how often, for how long, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jaxobs.report.comparison.finding import Cause, Effect, Finding, Row
from jaxobs.report.document import all_compile_seconds, compile_seconds
from jaxobs.report.record import Record
from jaxobs.report.units import duration, times
from jaxobs.vocabulary.labels import EAGER

SHOWN: Final = 10


def recompile_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Functions that were recompiled more or less often, with the reason."""
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    for name in sorted(one.keys() | other.keys()):
        old, new = _again(one, name), _again(other, name)
        if old == new or name == EAGER:  # many primitives share that name, each of which is compiled once
            continue
        more = (other if new > old else one).get(name) or {}
        because = _reasons(more) or "for a reason that is not known"
        lost = sum(float(row.get("seconds") or 0.0) for row in _rows(more))
        often, before_that = (times(number) if number else "never" for number in (new, old))
        yield Finding(
            Cause.RECOMPILE,
            name,
            Effect.of(new > old),
            f"`{name}` was compiled again {often} instead of {before_that}: {because}; it took {duration(lost)}",
        )


def compile_rows(before: Record, after: Record) -> Iterator[Row]:
    """Seconds of compiling: of all functions together, and of those that took longest."""
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    whole_before, whole_after = (duration(all_compile_seconds(record.snapshot)) for record in (before, after))
    yield Row("all functions", whole_before, whole_after)
    ranked = sorted(
        one.keys() | other.keys(), key=lambda name: (-max(_seconds(one, name), _seconds(other, name)), name)
    )
    for name in ranked[:SHOWN]:
        counts = f"{_count(one, name)} → {_count(other, name)}"
        old, new = (
            duration(_seconds(functions, name)) if name in functions else "not compiled"
            for functions in (one, other)
        )
        yield Row(name, old, new, f"{counts} compiles")


def _again(functions: Mapping[str, Any], name: str) -> int:
    return int((functions.get(name) or {}).get("recompilation_count") or 0)


def _count(functions: Mapping[str, Any], name: str) -> int:
    return int((functions.get(name) or {}).get("compilations") or 0)


def _seconds(functions: Mapping[str, Any], name: str) -> float:
    return compile_seconds(functions.get(name) or {})


def _rows(function: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(function.get("recompilations") or [])


def _reasons(function: Mapping[str, Any]) -> str:
    """The most expensive reason of a function's recompilations in words; empty where there is none."""
    rows = sorted(_rows(function), key=lambda row: -float(row.get("seconds") or 0.0))
    if not rows:
        return ""
    row = rows[0]
    what = f"the {row['cause']} of `{row['argument']}`" if row.get("argument") else f"cause {row['cause']}"
    old_and_new = f" (from {row['old']} to {row['new']})" if row.get("old") and row.get("new") else ""
    where = f" at {row['call_site']}" if row.get("call_site") else ""
    return f"mostly for {what}{old_and_new}{where}" if len(rows) > 1 else f"for {what}{old_and_new}{where}"
