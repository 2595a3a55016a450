"""Figures as people read them: about three digits and a unit. Every text that jaxobs writes takes them from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ABSENT: Final = "–"
"""What stands in a table for a value that is not known."""

_ROUNDED_UP: Final = 0.9995
"""From here on three digits show a whole unit."""

_LARGE_TIMES: Final = 2.0
"""Of minutes and of hours there are at least so many: `61.2 s` says more than `1.02 min`."""

_Units = tuple[tuple[float, float, str], ...]
"""From how much on a unit is used, its size and its name; the largest first."""

_TIMES: Final[_Units] = tuple(
    (size * (_LARGE_TIMES if size > 1.0 else _ROUNDED_UP), size, name)
    for size, name in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
)
_BYTES: Final[_Units] = tuple(
    (2.0**power, 2.0**power, name)
    for power, name in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
)
_PREFIXES: Final[_Units] = tuple(
    (_ROUNDED_UP * size, size, name)
    for size, name in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
)


def or_absent(value: float | None, write: Callable[..., str], *unit: str) -> str:
    """`write(value, *unit)`, or `–`."""
    return ABSENT if value is None else write(value, *unit)


def duration(seconds: float) -> str:
    """`1.2 ms`."""
    if not seconds:
        return "0 s"
    size, unit = _unit(seconds, _TIMES)
    return f"{digits(seconds / size)} {unit}"


def byte_size(amount: float) -> str:
    """`1.5 GiB`: bytes in the largest binary unit that leaves a whole part."""
    size, unit = _unit(amount, _BYTES)
    return f"{digits(amount / size)} {unit}"


def amount(value: float, unit: str = "") -> str:
    """`1.23 TFLOP/s`: with an SI prefix from a thousand on."""
    size, prefix = _unit(value, _PREFIXES)
    return f"{digits(value / size)} {prefix}{unit}".rstrip()


def percent(ratio: float) -> str:
    """`12.3 %`."""
    return f"{digits(100 * ratio)} %"


def rough_percent(ratio: float) -> str:
    """`12 %`: two digits, for shares that are known no better."""
    return f"{100 * ratio:.2g} %" if abs(ratio) < 0.995 else f"{100 * ratio:,.0f} %"


def count(value: float) -> str:
    """`1,234`."""
    return f"{value:,.0f}"


def times(number: float) -> str:
    """`once`, `twice`, `12 times`."""
    return {1: "once", 2: "twice"}.get(round(number), f"{count(number)} times")


def _unit(value: float, units: _Units) -> tuple[float, str]:
    """Size and name of the first that there is enough of, else of the last: a loop, as pages write thousands."""
    for least, size, name in units:
        if abs(value) >= least:
            return size, name
    return units[-1][1:]


def digits(value: float) -> str:
    """Three, as many as there are before the point, or a power of ten where it begins with more zeros than that."""
    size = abs(value)
    if 999.5 <= size < 1e15:
        return count(value)
    return f"{value:.2e}" if 0 < size < 1e-3 else f"{value:.3g}"
