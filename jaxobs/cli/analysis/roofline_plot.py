"""The roofline as SVG: FLOP/s over FLOP/byte on logarithmic axes, a roof for each element type, a dot an operation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from jaxobs.cli.analysis.figures import amount, percent, seconds

_WIDTH: Final = 960
_HEIGHT: Final = 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 20, 20, 60
_LEAST_RADIUS, _MOST_RADIUS = 3.0, 18.0
_MARGIN: Final = 0.3
"""Decades left free around what is drawn."""

_LEAST_TICKS: Final = 3
"""Two show the scale, and a third that it is logarithmic."""

Roof = tuple[str, str, Sequence[tuple[float, float]]]


class _Axis(NamedTuple):
    """A logarithmic axis: its ends as powers of ten, and where they lie."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten; with fewer than three of them also their twofold and fivefold, so that any axis can be read."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        for steps in ((1.0,), (1.0, 2.0, 5.0), tuple(float(step) for step in range(1, 10))):
            ticks = [step * 10.0**power for power in powers for step in steps]
            inside = [tick for tick in ticks if self.low <= math.log10(tick) <= self.high]
            if len(inside) >= _LEAST_TICKS:
                break
        return inside


def roofline_plot(operations: Sequence[Mapping[str, Any]], roofs: Sequence[Roof]) -> str:
    """An `<svg>` element; empty where no operation does floating-point work on known bytes."""
    shown = [row for row in operations if row["intensity"] and row["achieved_flops_per_second"]]
    if not shown:
        return ""
    points = [point for _, _, roof in roofs for point in roof]
    intensities = [row["intensity"] for row in shown]
    # Roofs reach over 21 powers of two; only the part around the operations matters, and each roof's bend.
    ridges = [_ridge(roof) for _, _, roof in roofs]
    across = _axis([*intensities, *ridges], _LEFT, _WIDTH - _RIGHT)
    near = [rate for x, rate in points if across.low <= math.log10(x) <= across.high]
    up = _axis([*(row["achieved_flops_per_second"] for row in shown), *near], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Roofline: FLOP/s over FLOP per byte">',
        *_grid(across, up),
        *(line for roof in roofs for line in _roof(roof, across, up)),
        *(_dot(row, across, up) for row in sorted(shown, key=lambda row: -row["seconds"])),
        "</svg>",
    ]
    return "\n".join(parts)


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    powers = [math.log10(value) for value in values]
    return _Axis(min(powers) - _MARGIN, max(powers) + _MARGIN, start, end)


def _ridge(roof: Sequence[tuple[float, float]]) -> float:
    """The intensity from which on the roof is flat."""
    highest = max(rate for _, rate in roof)
    return next(intensity for intensity, rate in roof if rate == highest)


def _grid(across: _Axis, up: _Axis) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in across.ticks():
        x = across.at(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_round(tick)}</text>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle}" y="{_HEIGHT - 14}" text-anchor="middle">FLOP per byte of device memory</text>'
    )
    y = (_TOP + bottom) / 2
    parts.append(f'<text transform="translate(18 {y}) rotate(-90)" text-anchor="middle">FLOP/s</text>')
    return parts


def _round(tick: float) -> str:
    """`100 T`, without the digits after the point that a figure would have."""
    number, _, prefix = amount(tick).partition(" ")
    return f"{float(number):g} {prefix}".rstrip()


def _roof(roof: Roof, across: _Axis, up: _Axis) -> list[str]:
    kind, dtype, curve = roof
    ridge, highest = _ridge(curve), max(rate for _, rate in curve)
    first_intensity, first_rate = curve[0]
    bandwidth = first_rate / first_intensity
    corners = [10.0**across.low, highest / bandwidth, 10.0**across.high]
    inside = [intensity for intensity in corners if across.low <= math.log10(intensity) <= across.high]
    drawn = [
        (across.at(intensity), up.at(max(min(intensity * bandwidth, highest), 10.0**up.low)))
        for intensity in inside
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
    label = f"{kind}, {dtype}: {amount(highest, 'FLOP/s')}, {amount(bandwidth, 'B/s')}, ridge {ridge:.3g}"
    x, y = drawn[-1]
    name = f"{escape(dtype)} {amount(highest, 'FLOP/s')}"
    return [
        f'<polyline class="roof" points="{line}"><title>{escape(label)}</title></polyline>',
        f'<text class="roof-name" x="{x - 4:.1f}" y="{y - 6:.1f}" text-anchor="end">{name}</text>',
    ]


def _dot(row: Mapping[str, Any], across: _Axis, up: _Axis) -> str:
    """Its area is the share of the time; what it is stands in its title."""
    x, y = across.at(row["intensity"]), up.at(row["achieved_flops_per_second"])
    radius = max(_LEAST_RADIUS, _MOST_RADIUS * math.sqrt(row["share"] or 0.0))
    said = (
        f"{row['name']} ({row['module'] or 'no module'}): {seconds(row['seconds'])}, {percent(row['share'])} of the "
        f"time; {amount(row['achieved_flops_per_second'], 'FLOP/s')} at {amount(row['intensity'])} FLOP/B; efficiency "
        f"{percent(row['efficiency'])}, {row['label']}; {row['source']}"
    )
    kind = "".join(letter for letter in row["label"] if letter.isalpha())
    return (
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
        f"<title>{escape(said)}</title></circle>"
    )
