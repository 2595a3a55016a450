"""Charts as SVG elements: where the time went, and lines over time, with their scales and ticks.

Every chart is as wide as the element around it and has a height in pixels of its own. Horizontal positions are
percentages and vertical ones pixels, so that letters and dots keep their size on a phone and on a wide screen without a
script. Lines and areas are drawn in a layer 100 units wide that is stretched to the width (`stretched`). What a chart
shows under the pointer is in the `<title>` of its parts, which every browser shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from jaxobs.report.markup import Element, chart, stretched, tag
from jaxobs.vocabulary.units import amount, duration, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

_TIME_STEPS: Final = (5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 300.0, 600.0, 900.0)
_MAX_TIME_TICKS: Final = 6
"""Most labels of a time axis: this many fit beside each other on a phone."""


@dataclass(frozen=True)
class Scale:
    """Maps values from `low` to `high` linearly to positions from `start` to `end`, and beyond."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, wanted: int = 3) -> list[float]:
        """Round values, nearly as many as `wanted`: steps of 1, 2 or 5 times a power of ten."""
        reach = self.high - self.low
        power = 10.0 ** (math.floor(math.log10(reach)) - 1)
        steps = (power * times for times in (1, 2, 5, 10, 20, 50))
        step = min(steps, key=lambda step: abs(reach / step - wanted))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [index * step for index in range(first, last + 1)]


class LogScale(Scale):
    """Maps positive values to a logarithmic axis; `low` and `high` are the exponents of ten at its ends."""

    @classmethod
    def around(cls, values: Iterable[float], margin: float, start: float, end: float) -> LogScale:
        """A scale around positive `values`, with `margin` decades left free on both sides."""
        powers = [math.log10(value) for value in values]
        return cls(min(powers) - margin, max(powers) + margin, start, end)

    def value(self, at: float) -> float:
        """The value at a position."""
        share = (at - self.start) / (self.end - self.start)
        return float(10.0 ** (self.low + share * (self.high - self.low)))

    def at(self, value: float) -> float:
        return super().at(math.log10(value))

    def ticks(self, wanted: int = 3) -> list[float]:
        """Powers of ten; where fewer than `wanted` of them fit, also their multiples by 2 and 5, or by 1 to 9."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        inside: list[float] = []
        for steps in ((1.0,), (1.0, 2.0, 5.0), tuple(float(step) for step in range(1, 10))):
            ticks = [step * 10.0**power for power in powers for step in steps]
            inside = [tick for tick in ticks if self.low <= math.log10(tick) <= self.high]
            if len(inside) >= wanted:
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
    step = next((step for step in _TIME_STEPS if span / step <= _MAX_TIME_TICKS), _TIME_STEPS[-1])
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


Ends = tuple[float, float]


def pointed_at(
    positions: Sequence[float], ends: Ends, rows: Ends, about: Callable[[int], str]
) -> Iterator[Element]:
    """Bands side by side between two `rows` that show under the pointer what there is to say `about` a point."""
    top, bottom = rows
    for index, start, end in bands(positions, _BANDS, *ends):
        yield tag(
            "rect", tag("title", about(index)), class_="mark band", x=f"{start:.2f}%",
            width=f"{max(0.0, end - start):.2f}%", y=top, height=bottom - top,
        )  # fmt: skip


_LINE_TOP: Final = 14
_AXIS: Final = 22

_MIN_DRAWN, _MAX_DRAWN = 1e-290, 1e290
"""Bounds of what can be drawn: beyond them lengths become 0 or infinite. A script may record any value."""


class Curve(NamedTuple):
    """A value over time; NaN where it is not known."""

    name: str
    times: Sequence[float]
    values: Sequence[float]
    span: float
    write: Callable[[float], str]
    from_zero: bool = True
    limit: float | None = None
    tick_unit: float = 1.0


def line_chart(curve: Curve, *, height: int = 92, with_times: bool = True) -> Element | None:
    """An `<svg>` element; None if fewer than two of the values are known.

    The line is broken where a value is not known or cannot be drawn. `height` is that of the whole chart in pixels, and
    `with_times` whether times are written below it; of charts one above the other only the last needs them.
    """
    write = curve.write
    found = zip(curve.times, curve.values, strict=True)
    runs = [list(run) for drawable, run in groupby(found, lambda pair: abs(pair[1]) < _MAX_DRAWN) if drawable]
    known = [pair for run in runs for pair in run]
    if len(known) < 2:
        return None

    def about(index: int) -> str:
        time, value = known[index]
        return f"{write(value)}\n{duration(-time)} ago"

    bottom = height - (_AXIS if with_times else 4)
    values = [value for _, value in known]
    up = _scale(values, bottom, curve.from_zero, curve.limit)
    scale = Scale(-curve.span, 0.0, 0.0, 100.0)
    across = [scale.at(time) for time, _ in known]
    last = values[-1]
    ends = f"now {write(last)}, lowest {write(min(values))}, highest {write(max(values))}"
    return chart(
        height,
        f"{curve.name} over time: {ends}",
        *_levels(up, write, curve.tick_unit),
        stretched(height, *(shape for run in runs for shape in _line(run, scale, up, fill=curve.from_zero))),
        *_limit(up, curve.limit, write),
        tag("circle", class_="last", cx=f"{across[-1]:.2f}%", cy=up.at(last), r="3"),
        *pointed_at(across, (across[0], across[-1]), (_LINE_TOP, bottom), about),
        *(seconds_ago(scale, height - 6) if with_times else ()),
        kind="with-levels line",
    )


def _scale(values: Sequence[float], bottom: float, from_zero: bool, limit: float | None) -> Scale:
    low, high = min(values), max(values)
    usual = sorted(values)[int(_USUAL * (len(values) - 1))]
    if from_zero and high > _FAR_ABOVE * usual > 0:
        high = _ROOM_ABOVE * usual
    if limit is not None and limit <= _LIMIT_IN_SIGHT * high:
        high = max(high, limit)
    if from_zero:
        low = min(0.0, low)
    if high - low < _MIN_DRAWN:
        room = 0.5 * (abs(high) if abs(high) > _MIN_DRAWN else 1.0)
        high, low = high + room, low - (0.0 if from_zero else room)
    return Scale(low, high + (high - low) * 0.08, bottom, _LINE_TOP)


_USUAL: Final = 0.95
_FAR_ABOVE: Final = 3.0
_ROOM_ABOVE: Final = 1.5
"""A line leaves the chart at its top where its highest value is more than _FAR_ABOVE times the _USUAL quantile: a few
moments such as the first steps, which wait for nothing, would flatten all the rest. Their values are shown under the
pointer. The axis then ends at _ROOM_ABOVE times that quantile."""

_LIMIT_IN_SIGHT: Final = 3.0
"""How many times the highest value a limit may be to be drawn: a higher one would flatten the line at the bottom."""


def _levels(up: Scale, write: Callable[[float], str], tick_unit: float) -> Iterator[Element]:
    for ticks in Scale(up.low / tick_unit, up.high / tick_unit, up.start, up.end).ticks():
        tick = ticks * tick_unit
        y = up.at(tick)
        yield level(y)
        yield level_name(write(tick) if tick else "0", y)


def _limit(up: Scale, limit: float | None, write: Callable[[float], str]) -> Iterator[Element]:
    if limit is not None and limit <= up.high:
        y = up.at(limit)
        yield level(y, "limit")
        yield tag("text", f"limit {write(limit)}", class_="tick", x="100%", y=y - 4, text_anchor="end")


def _line(run: Sequence[tuple[float, float]], scale: Scale, up: Scale, *, fill: bool) -> Iterator[Element]:
    across = [scale.at(time) for time, _ in run]
    line = " ".join(f"{x:.2f},{up.at(value):.1f}" for x, (_, value) in zip(across, run, strict=True))
    if fill and len(run) > 1:
        corners = f"{line} {across[-1]:.2f},{up.start} {across[0]:.2f},{up.start}"
        yield tag("polygon", class_="under-line", points=corners)
    yield tag("polyline", class_="line", points=line)


_BAR: Final = 34
_STACK_HEIGHT: Final = 200
_STACK_TOP, _STACK_BOTTOM = 8, 176
_BANDS: Final = 60
"""Most bands in which a chart shows values under the pointer."""

_MIN_SHARE: Final = 0.0005
"""Share below which a part is not drawn: it would be narrower than a pixel, and round to 0 %."""

_ROOM_FOR_A_LETTER: Final = 0.0225
"""Share of a bar's width that a letter of a name takes on a phone, 7.5 of 334 pixels; on a wide screen a third of it."""


Place = tuple[float, float]
"""Where a part of a bar begins and how wide it is, as shares of the bar's width."""


def part(text: str | None, component: str, about: str, place: Place, height: int, **more: Any) -> Element:
    """A part of a bar in its component's colour, with a text in it."""
    start, share = place
    shapes = (
        tag("title", about),
        tag("rect", class_=f"is-{component}", width="100%", height=height),
        text and tag("text", text, class_=f"on-{component}", x="6", y=height / 2 + 4),
    )
    x, width = f"{100 * start:.3f}%", f"{100 * share:.3f}%"
    return tag("svg", *shapes, x=x, width=width, height=height, **more)


def shares_bar(parts: Mapping[str, float]) -> Element:
    """A bar of `parts`, seconds by component, not all of them 0, that fills the width."""
    whole = sum(parts.values())
    shares = {name: parts[name] / whole for name in _ordered(parts)}
    shapes: list[Element] = []
    start = 0.0
    for name, share in shares.items():
        if share >= _MIN_SHARE:
            about = f"{name}: {duration(parts[name])}, {rough_percent(share)}"
            room = _ROOM_FOR_A_LETTER * (len(name) + 2)
            kind = "mark part" if share >= room else "mark part narrow"
            named = name if share >= room / 3 else None
            shapes.append(part(named, name, about, (start, share), _BAR, class_=kind))
        start += share
    label = "; ".join(f"{name} {rough_percent(share)}" for name, share in shares.items() if share >= 0.005)
    return chart(_BAR, f"Where a step goes: {label}", *shapes, kind="bar")


Shares = Mapping[str, Sequence[float]]
"""By component, its share of each stretch of time."""


def shares_over_time(
    edges: Sequence[float], shares: Shares, span: float, marks: Iterable[tuple[float, str]]
) -> Element | None:
    """Shares of the time over time, as a stack that adds up to 1; None if there is no stretch of time.

    The stretches lie between two `edges` each; the `marks` are moments with their texts, and stand on top.
    """
    if len(edges) < 2:
        return None
    scale = Scale(-span, 0.0, 0.0, 100.0)
    shown = {name: shares[name] for name in _ordered(shares) if max(shares[name]) >= _MIN_SHARE}
    across = [scale.at(edge) for edge in edges]
    middles = [(start + end) / 2 for start, end in pairwise(across)]
    events = []
    for time, what in marks:
        place = {"x": f"{scale.at(time):.2f}%", "y": str(_STACK_TOP), "overflow": "visible"}
        drawn = tag("path", d="M0 0 L4 -7 L-4 -7 Z")
        events.append(tag("svg", tag("title", what), drawn, class_="mark event", **place))

    def about(index: int) -> str:
        parts = sorted(((values[index], name) for name, values in shown.items()), reverse=True)
        lines = [f"{name} {rough_percent(share)}" for share, name in parts if share >= 0.005]
        return "\n".join([f"{duration(-edges[index + 1])} ago", *lines])

    middle = (_STACK_TOP + _STACK_BOTTOM) / 2
    levels = {"100 %": _STACK_TOP + 4, "50 %": middle, "0": _STACK_BOTTOM}
    return chart(
        _STACK_HEIGHT,
        f"Where the time went, as parts of it over time: {', '.join(shown)}",
        stretched(_STACK_HEIGHT, *_areas(across, shown)),
        tag("line", class_="level", x1=f"{across[0]:.2f}%", y1=middle, x2="100%", y2=middle),
        level(_STACK_BOTTOM),
        *(level_name(text, y) for text, y in levels.items()),
        *pointed_at(middles, (across[0], across[-1]), (_STACK_TOP, _STACK_BOTTOM), about),
        *events,
        *seconds_ago(scale, _STACK_HEIGHT - 6),
    )


def _ordered(names: Mapping[str, object]) -> list[str]:
    return [name for name in COMPONENTS if name in names]


def _areas(across: Sequence[float], layers: Shares) -> Iterator[Element]:
    """Areas of the layers, each on top of those before it, and level within a stretch, as no more is known of it."""
    stretches = list(pairwise(f"{x:.2f}" for x in across))
    below = [0.0] * len(stretches)
    lower = _steps(stretches, below)
    for name, layer in layers.items():
        above = [low + share for low, share in zip(below, layer, strict=True)]
        upper = _steps(stretches, above)
        yield tag("polygon", class_=f"area is-{name}", points=" ".join([*upper, *reversed(lower)]))
        below, lower = above, upper


def _steps(stretches: Sequence[tuple[str, str]], heights: Sequence[float]) -> list[str]:
    up = Scale(0.0, 1.0, _STACK_BOTTOM, _STACK_TOP)
    levels = [f"{up.at(min(1.0, height)):.1f}" for height in heights]
    return [f"{x},{y}" for edges, y in zip(stretches, levels, strict=True) for x in edges]
