"""The roofline chart: FLOP/s over FLOP/byte on logarithmic axes, a roof for each element type, a mark for each point.

The picture is that of Williams, Waterman and Patterson, CACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from jaxobs.report.charts import LogScale, level, level_name, short
from jaxobs.report.markup import Element, chart, number, stretched, tag
from jaxobs.report.rooflines import Point, axes
from jaxobs.roofline_model.bounds import Roof
from jaxobs.vocabulary.units import amount

_HEIGHT: Final = 380
_TOP, _BOTTOM = 24, 336
_MIN_RADIUS, _MAX_RADIUS = 4.0, 15.0

_NAMED: Final = 4
"""How many of the largest executables have their names beside them."""


def roofline(roofs: Sequence[Roof], points: Sequence[Point]) -> Element | None:
    """An `<svg>` element; None where there is neither a roof nor a point."""
    if not roofs and not points:
        return None
    across, up = axes(roofs, points, (0.0, 100.0), (_BOTTOM, _TOP))
    largest_last = sorted(points, key=lambda point: (point.kind == "executable", -point.share))
    return chart(
        _HEIGHT,
        f"Roofline: FLOP per second over FLOP per byte, {len(points)} points, {len(roofs)} roofs",
        *_grid(across, up),
        stretched(_HEIGHT, *(_roof(roof, across, up) for roof in roofs)),
        *(_mark(point, across, up) for point in largest_last),
        *(text for roof in roofs for text in _roof_names(roof, across, up)),
        *_names(points, across, up),
    )


def _grid(across: LogScale, up: LogScale) -> Iterator[Element]:
    for tick in up.ticks():
        y = up.at(tick)
        yield level(y)
        yield level_name(short(tick), y)
    for tick in across.ticks():
        x = f"{across.at(tick):.2f}%"
        yield tag("line", class_="grid", x1=x, y1=_TOP, x2=x, y2=_BOTTOM)
        yield tag("text", f"{tick:g}", class_="tick", x=x, y=_BOTTOM + 16, text_anchor="middle")
    yield level_name("FLOP/s", 12)
    text = "FLOP per byte of device memory"
    yield tag("text", text, class_="tick axis", x="100%", y=_HEIGHT - 8, text_anchor="end")


def _roof(roof: Roof, across: LogScale, up: LogScale) -> Element:
    low, high = across.value(across.start), across.value(across.end)
    corners = [low, *([roof.ridge] if low < roof.ridge < high else []), high]
    line = " ".join(f"{across.at(x):.2f},{up.at(roof.at(x)):.1f}" for x in corners)
    about = (
        f"{roof.device_kind}, {roof.dtype}: {amount(roof.flops_per_second, 'FLOP/s')},"
        f" {amount(roof.bytes_per_second, 'B/s')}, ridge at {amount(roof.ridge, 'FLOP/byte')}"
    )
    under = f"{line} {number(across.end)},{number(up.start)} {number(across.start)},{number(up.start)}"
    shapes = tag("polygon", class_="under-roof", points=under), tag("polyline", class_="roof", points=line)
    rates = {"flops": roof.flops_per_second, "bytes": roof.bytes_per_second}
    told = {f"data_{name}_per_second": f"{rate:.9g}" for name, rate in rates.items()}
    return tag("g", tag("title", about), *shapes, **told, data_dtype=roof.dtype)


def _roof_names(roof: Roof, across: LogScale, up: LogScale) -> Iterator[Element]:
    flat = f"{roof.dtype} {amount(roof.flops_per_second, 'FLOP/s')}"
    places = [(flat, 100, up.at(roof.flops_per_second) - 7)]
    if across.at(roof.ridge) > _SLOPE_TO_NAME:
        level = up.at(roof.at(across.value(_SLOPE_NAME_AT)))
        places.append((amount(roof.bytes_per_second, "B/s"), _SLOPE_NAME_AT, level - 8))
    for text, x, y in places:
        yield tag("text", text, class_="roof-name", x=f"{x}%", y=y, text_anchor="end")


_SLOPE_NAME_AT: Final = 22
_SLOPE_TO_NAME: Final = 30
"""Position of the slope's name, and the least length of a slope that has room for it, in per cent of the width."""


def _radius(point: Point) -> float:
    return _MIN_RADIUS + (_MAX_RADIUS - _MIN_RADIUS) * math.sqrt(min(1.0, max(0.0, point.share)))


def _mark(point: Point, across: LogScale, up: LogScale) -> Element:
    """The mark of a point: a diamond for an executable, a circle for an operation."""
    x, y, r = across.at(point.intensity), up.at(point.rate), number(_radius(point))
    diamond = tag("path", d=f"M0 -{r} L{r} 0 L0 {r} L-{r} 0 Z")
    shapes = [tag("title", point.about)]
    if point.attainable is not None:
        shapes.append(tag("line", class_="room", y2=up.at(point.attainable) - y))
    shapes.append(diamond if point.kind == "executable" else tag("circle", r=r))
    kind = f"mark {point.kind} is-{point.bottleneck}"
    told = {"data_flops_per_second": f"{point.rate:.9g}", "data_intensity": f"{point.intensity:.9g}"}
    return tag("svg", *shapes, class_=kind, x=f"{x:.2f}%", y=y, **told)


def _names(points: Sequence[Point], across: LogScale, up: LogScale) -> Iterator[Element]:
    """Names of the largest executables, but for those that lie too near to a larger one."""
    placed: list[tuple[float, float]] = []
    executables = sorted((one for one in points if one.kind == "executable"), key=lambda one: -one.share)
    for point in executables[:_NAMED]:
        x, y = across.at(point.intensity), up.at(point.rate)
        if any(abs(y - other) < 16 and abs(x - beside) < 30 for beside, other in placed):  # pixels, percent
            continue
        placed.append((x, y))
        anchor = "start" if x < _NEAR_AN_EDGE else "end" if x > 100 - _NEAR_AN_EDGE else "middle"
        above = y - _radius(point) - 5
        yield tag("text", point.name, class_="mark-name", x=f"{x:.2f}%", y=above, text_anchor=anchor)


_NEAR_AN_EDGE: Final = 12
"""Distance from an edge, in per cent of the width, within which a name centred above its point would be cut off."""
