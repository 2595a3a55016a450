"""Figures of an analysis, any of which may not be known."""

from __future__ import annotations

from jaxobs.report import units as wording
from jaxobs.report.units import ABSENT

__all__ = ["ABSENT", "amount", "percent", "seconds"]


def seconds(value: float | None) -> str:
    """`1.23 ms`."""
    return ABSENT if value is None else wording.duration(value)


def amount(value: float | None, unit: str = "") -> str:
    """`1.23 TFLOP/s`."""
    return ABSENT if value is None else wording.amount(value, unit)


def percent(value: float | None) -> str:
    """`12.3 %`."""
    return ABSENT if value is None else wording.percent(value)
