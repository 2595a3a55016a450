"""Compares what was compiled and recompiled in both runs: how often, for how long, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jaxobs.model.snapshot import all_compile_seconds, compile_seconds
from jaxobs.report.comparison.finding import Cause, Effect, Finding, Row
from jaxobs.report.record import Record
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import duration, times

SHOWN: Final = 10

Function = Mapping[str, Any]


def recompile_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Functions that were recompiled more or less often, with the reason."""
    for name, (one, other) in _functions(before, after).items():
        old, new = (int(function.get("recompilation_count") or 0) for function in (one, other))
        if old == new or name == EAGER:  # many primitives share that name, each of which is compiled once
            continue
        again = (other if new > old else one).get("recompilations") or []
        because = _reasons(again) or "for a reason that is not known"
        lost = sum(float(row.get("seconds") or 0.0) for row in again)
        often, before_that = (times(number) if number else "never" for number in (new, old))
        yield Finding(
            Cause.RECOMPILE,
            name,
            Effect.of(new > old),
            f"`{name}` was compiled again {often} instead of {before_that}: {because}; it took {duration(lost)}",
        )


def compile_rows(before: Record, after: Record) -> Iterator[Row]:
    """Seconds of compiling: of all functions together, and of those that took longest."""
    whole_before, whole_after = (duration(all_compile_seconds(record.snapshot)) for record in (before, after))
    yield Row("all functions", whole_before, whole_after)
    functions = _functions(before, after)
    for name in sorted(functions, key=lambda name: -max(map(compile_seconds, functions[name])))[:SHOWN]:
        old, new = (duration(compile_seconds(each)) if each else "not compiled" for each in functions[name])
        counts = " → ".join(str(each.get("compilations") or 0) for each in functions[name])
        yield Row(name, old, new, f"{counts} compiles")


def _functions(before: Record, after: Record) -> dict[str, tuple[Function, Function]]:
    """By name in alphabetical order, each function's entry in both records; empty where it was not compiled."""
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    return {name: (one.get(name) or {}, other.get(name) or {}) for name in sorted(one.keys() | other.keys())}


def _reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    """The most expensive reason of a function's recompilations in words; empty where there is none."""
    if not rows:
        return ""
    row = max(rows, key=lambda row: float(row.get("seconds") or 0.0))
    what = f"the {row['cause']} of `{row['argument']}`" if row.get("argument") else f"cause {row['cause']}"
    old_and_new = f" (from {row['old']} to {row['new']})" if row.get("old") and row.get("new") else ""
    where = f" at {row['call_site']}" if row.get("call_site") else ""
    return f"{'mostly ' if len(rows) > 1 else ''}for {what}{old_and_new}{where}"
