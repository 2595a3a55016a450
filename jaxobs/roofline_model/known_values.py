"""Sums and times of amounts of which some are not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from jaxobs.hardware.peaks import Peak


def typed_seconds(
    unit: str, amounts: Mapping[str, float], peak_of: Callable[[str], Peak | None], missing: list[str]
) -> float | None:
    """The time, s, of amounts of work by element type; a type whose time is not known is noted in `missing`."""
    parts = [
        seconds_of(f"{unit} {dtype}", amount, value_of(peak_of(dtype)), missing)
        for dtype, amount in amounts.items()
    ]
    return sum_known(parts)


def seconds_of(name: str, amount: float, rate: float | None, missing: list[str]) -> float | None:
    """The time, s, of an amount of work, 0 for no work; None, with `name` noted in `missing`, where it is not known."""
    if amount == 0:
        return 0.0
    if usable(amount) is None:
        missing.append(f"{name} (the amount is {amount})")
        return None
    if rate is None:
        missing.append(name)
        return None
    return amount / rate


def value_of(peak: Peak | None) -> float | None:
    """The peak's value; None where there is no peak."""
    return peak.value if peak else None


def usable(value: float | None) -> float | None:
    """The value if it is positive and finite, else None."""
    return value if value is not None and 0 < value < math.inf else None


def largest(parts: Iterable[float | None]) -> float | None:
    """The largest known part; None where none is known."""
    return max((part for part in parts if part is not None), default=None)


def sum_of_both(one: float | None, other: float | None) -> float | None:
    """The sum of two amounts; None where either is not known."""
    return None if one is None or other is None else one + other


def sum_known(parts: Iterable[float | None]) -> float | None:
    """The sum of the known parts; None where there are parts and none is known."""
    total = KnownSum()
    for part in parts:
        total.add(part)
    return total.value


class KnownSum:
    """A running sum of the known parts: None where there were parts and none was known."""

    __slots__ = ("_known", "_parts", "_total")

    def __init__(self) -> None:
        self._parts = self._known = 0
        self._total = 0.0

    def add(self, part: float | None) -> None:
        self._parts += 1
        if part is not None:
            self._known += 1
            self._total += part

    @property
    def value(self) -> float | None:
        return self._total if self._known or not self._parts else None
