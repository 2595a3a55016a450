"""Scales and their ticks: linear, logarithmic, and seconds before now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from jaxobs.report.drawing.elements import Element, tag
from jaxobs.vocabulary.units import amount

_LEAST_TICKS: Final = 3
"""Least ticks of a logarithmic axis: two show the scale, and a third that it is logarithmic."""

_TIME_STEPS: Final = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0)
_MOST_TIME_TICKS: Final = 6
"""Most labels of a time axis: this many fit beside each other on a phone."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` linearly to positions from `start` to `end`, and beyond."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def all_at(self, values: Iterable[float]) -> list[float]:
        """The positions of the values."""
        low, start, reach, width = self.low, self.start, self.high - self.low, self.end - self.start
        return [start + (value - low) / reach * width for value in values]

    def ticks(self, wanted: int = 3, unit: float = 1.0) -> list[float]:
        """Round values, nearly as many as `wanted`: steps of 1, 2 or 5 times a power of ten of `unit`."""
        reach = (self.high - self.low) / unit
        power = 10.0 ** (math.floor(math.log10(reach)) - 1)
        step = min(
            (power * times for times in (1, 2, 5, 10, 20, 50)), key=lambda step: abs(reach / step - wanted)
        )
        first, last = math.ceil(self.low / unit / step - 1e-9), math.floor(self.high / unit / step + 1e-9)
        return [index * step * unit for index in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class LogScale:
    """Maps positive values to a logarithmic axis; `low` and `high` are the exponents of ten at its ends."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], margin: float, start: float, end: float) -> LogScale:
        """A scale around positive `values`, with `margin` decades left free on both sides."""
        powers = [math.log10(value) for value in values]
        return cls(min(powers) - margin, max(powers) + margin, start, end)

    @property
    def ends(self) -> tuple[float, float]:
        """The values at both ends."""
        return 10.0**self.low, 10.0**self.high

    def at(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten; where fewer than three of them fit, also their multiples by 2 and 5, or by 1 to 9."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        inside: list[float] = []
        for steps in ((1.0,), (1.0, 2.0, 5.0), tuple(float(step) for step in range(1, 10))):
            ticks = [step * 10.0**power for power in powers for step in steps]
            inside = [tick for tick in ticks if self.low <= math.log10(tick) <= self.high]
            if len(inside) >= _LEAST_TICKS:
                break
        return inside


def short(tick: float) -> str:
    """A tick as text such as `100 T`, without trailing zeros."""
    figure, _, prefix = amount(tick).partition(" ")
    return f"{float(figure.replace(',', '')):g} {prefix}".rstrip()


def level(y: float, kind: str = "grid") -> Element:
    """A line across the whole chart."""
    return tag("line", class_=kind, x1="0", y1=y, x2="100%", y2=y)


def level_name(text: str, y: float) -> Element:
    """The name of a level, in the gutter that a chart of class `with-levels` has at its left."""
    return tag("text", text, class_="tick", x="-8", y=y + 4, text_anchor="end")


def seconds_ago(scale: Scale, y: float) -> Iterator[Element]:
    """Labels of a time axis that ends now; `scale` is of seconds, negative before now."""
    span = scale.high - scale.low
    step = next((step for step in _TIME_STEPS if span / step <= _MOST_TIME_TICKS), _TIME_STEPS[-1])
    for index in range(math.floor(span / step) + 1):
        ago = index * step
        if scale.at(-ago) < _ROOM_OF_A_LABEL:
            continue
        text = "now" if not ago else f"−{ago:.0f} s" if step < 60 else f"−{ago / 60:.0f} min"
        anchor = "end" if not ago else "middle"
        yield tag("text", text, class_="tick", x=f"{scale.at(-ago):.2f}%", y=y, text_anchor=anchor)


_ROOM_OF_A_LABEL: Final = 5.0
"""Percent of the width: half of a label's width on a phone, which would else be cut off."""


def bands(positions: Sequence[float], most: int, first: float, last: float) -> list[tuple[int, float, float]]:
    """Bands in which points at ascending `positions` are pointed at: (index of the point, start, end), at most `most`.

    The bands lie side by side from `first` to `last`.
    """
    if not positions:
        return []
    step = math.ceil(len(positions) / most)
    chosen = list(range(len(positions) - 1, -1, -step))[::-1]
    middles = [(positions[left] + positions[right]) / 2 for left, right in pairwise(chosen)]
    edges = [first, *middles, last]
    return [(index, start, end) for index, (start, end) in zip(chosen, pairwise(edges), strict=True)]


def band(text: str, start: float, end: float, top: float, bottom: float) -> Element:
    """A band from `start` to `end`, in per cent of the width, that shows the text under the pointer."""
    return tag(
        "rect", tag("title", text), class_="mark band", x=f"{start:.2f}%", width=f"{max(0.0, end - start):.2f}%",
        y=top, height=bottom - top,
    )  # fmt: skip
