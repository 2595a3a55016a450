"""Figures as people read them: three digits and a unit; a dash for what is not known."""

from __future__ import annotations

import math
from typing import Final

ABSENT: Final = "–"
_SMALL: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_LARGE: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(value: float | None) -> str:
    """`1.23 ms`."""
    if value is None:
        return ABSENT
    scale, unit = next((pair for pair in _SMALL if value >= pair[0]), _SMALL[-1 if value else 0])
    return f"{_digits(value / scale)} {unit}"


def amount(value: float | None, unit: str = "") -> str:
    """`1.23 TFLOP/s`."""
    if value is None:
        return ABSENT
    scale, prefix = next((pair for pair in _LARGE if abs(value) >= pair[0]), (1.0, ""))
    return f"{_digits(value / scale)} {prefix}{unit}".rstrip()


def percent(value: float | None) -> str:
    """`12.3 %`."""
    return ABSENT if value is None else f"{_digits(value * 100)} %"


def _digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 3)}f}"
