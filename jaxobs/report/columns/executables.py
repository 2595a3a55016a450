"""Columns of the tables of executables and operations: their work, the time it takes, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jaxobs.report.columns.column import Column, figure, last_name, text
from jaxobs.vocabulary.units import amount, count, duration, percent


def label_of(verdict: Mapping[str, Any] | None) -> str:
    """The word for what limits an executable."""
    return str((verdict or {}).get("label") or "unknown")


EXECUTABLES: Final = (
    Column("function", lambda row: str(row.get("function")), text=True),
    Column("executable", lambda row: str(row.get("executable") or "")[:8], text=True),
    figure("runs", "runs", count),
    figure("per run", "seconds_per_run", duration),
    figure("FLOP", "flops", amount, "cost"),
    figure("bytes", "bytes", lambda size: amount(size, "B"), "cost"),
    figure("FLOP/byte", "intensity", amount, "cost"),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("attainable", "attainable_flops_per_second", amount),
    figure("efficiency", "efficiency", percent),
    Column("limited by", lambda row: label_of(row.get("bottleneck")), text=True),
)
OPERATIONS: Final = (
    Column("operation", lambda row: str(row.get("operation")), text=True),
    text("function", "function"),
    text("scope", "scope"),
    Column("line", lambda row: last_name(row.get("source")), text=True),
    figure("of device time", "share", percent),
    figure("FLOP/byte", "intensity", amount),
    figure("FLOP/s", "achieved_flops_per_second", amount),
    figure("efficiency", "efficiency", percent),
    text("limited by", "bottleneck"),
)
