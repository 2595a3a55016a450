"""Formats figures for people: about three digits and a unit. Every text that jaxobs writes has them from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ABSENT: Final = "–"
"""What a table shows for a value that is not known."""

_ROUNDED_UP: Final = 0.9995
"""Share of a unit from which on three digits round up to a whole unit."""

_LARGE_TIMES: Final = 2.0
"""Least number of minutes or hours that are written as such: `61.2 s` says more than `1.02 min`."""

_Units = tuple[tuple[float, float, str], ...]
"""For each unit the least value that is written in it, its size and its name; the largest unit first."""

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


def or_absent(value: float | None, write: Callable[[float], str]) -> str:
    """The value as text; `–` where it is None."""
    return ABSENT if value is None else write(value)


def duration(seconds: float) -> str:
    """A duration such as `1.2 ms`."""
    if not seconds:
        return "0 s"
    size, unit = _unit(seconds, _TIMES)
    return f"{digits(seconds / size)} {unit}"


def byte_size(amount: float) -> str:
    """Bytes in the largest binary unit of which there is at least one, such as `1.5 GiB`."""
    size, unit = _unit(amount, _BYTES)
    return f"{digits(amount / size)} {unit}"


def amount(value: float, unit: str = "") -> str:
    """A number with a unit such as `1.23 TFLOP/s`, with an SI prefix from a thousand on."""
    size, prefix = _unit(value, _PREFIXES)
    return f"{digits(value / size)} {prefix}{unit}".rstrip()


def percent(ratio: float) -> str:
    """A ratio in per cent, such as `12.3 %`."""
    return _near_nothing(ratio) or f"{digits(100 * ratio)} %"


def rough_percent(ratio: float) -> str:
    """A ratio in per cent with two digits, such as `12 %`, for shares that are known no better."""
    return _near_nothing(ratio) or f"{rough(100 * ratio)} %"


def _near_nothing(ratio: float) -> str | None:
    """What is written for less than a thousandth of a per cent, of which nobody needs the digits; None for more."""
    if not 0 < abs(ratio) < 1e-5:
        return None
    return "< 0.001 %" if ratio > 0 else "> -0.001 %"


def signed_percent(change: float) -> str:
    """A relative change in per cent with its sign, such as `+12.3 %`."""
    if abs(change) < 1e-5:
        return "+0 %"
    return f"{100 * change:+.3g} %" if abs(change) < 9.995 else f"{100 * change:+,.0f} %"


def rough(value: float) -> str:
    """A number with two digits, or all of those before the point, for what is known no better."""
    return f"{value:.2g}" if abs(value) < 99.5 else count(value)


def count(value: float, thing: str = "") -> str:
    """A whole number, such as `1,234`; of a thing `1 step` or `1,234 steps`."""
    return f"{value:,.0f} {thing}{'s' * (value != 1)}" if thing else f"{value:,.0f}"


def times(number: float) -> str:
    """How often something happened, such as `once`, `twice` or `12 times`."""
    return {1: "once", 2: "twice"}.get(round(number), f"{count(number)} times")


def _unit(value: float, units: _Units) -> tuple[float, str]:
    """Size and name of the largest unit that the value has enough of, else of the smallest.

    It is a loop and no `next()`, as a page has thousands of figures.
    """
    for least, size, name in units:
        if abs(value) >= least:
            return size, name
    return units[-1][1:]


def digits(value: float) -> str:
    """A number with three digits, or all of those before the point; below a thousandth with a power of ten."""
    size = abs(value)
    if 999.5 <= size < 1e15:
        return count(value)
    return f"{value:.2e}" if 0 < size < 1e-3 else f"{value:.3g}"
