"""Figures in sentences: two or three digits and a unit."""

from __future__ import annotations

from typing import Final

_TIMES: Final = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES: Final = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def percent(ratio: float) -> str:
    """`12 %`."""
    return f"{100 * ratio:.2g} %" if ratio < 0.995 else f"{100 * ratio:.0f} %"


def duration(seconds: float) -> str:
    """`1.2 ms`."""
    size, unit = next((pair for pair in _TIMES if seconds >= pair[0]), _TIMES[-1])
    return f"{seconds / size:.3g} {unit}"


def size(amount: float) -> str:
    """`1.5 GiB`."""
    scale, unit = next((pair for pair in _BYTES if amount >= pair[0]), (1, "bytes"))
    return f"{amount / scale:.3g} {unit}"


def times(count: float) -> str:
    """`once`, `twice`, `12 times`."""
    return {1: "once", 2: "twice"}.get(round(count), f"{count:,.0f} times")
