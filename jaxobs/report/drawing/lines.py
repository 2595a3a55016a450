"""One value over time as a line, with its newest value at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

from jaxobs.report.drawing.axes import Scale, band, bands, level, level_name, seconds_ago
from jaxobs.report.drawing.elements import Element, chart, stretched, tag
from jaxobs.vocabulary.units import duration

_TOP: Final = 14
_AXIS: Final = 22
_BANDS: Final = 60

_LEAST, _MOST = 1e-290, 1e290
"""Bounds of what can be drawn: beyond them lengths become 0 or infinite. A script may record any value."""


def line_chart(
    times: Sequence[float],
    values: Sequence[float],
    span: float,
    *,
    name: str,
    write: Callable[[float], str],
    height: int = 92,
    from_zero: bool = True,
    limit: float | None = None,
    with_times: bool = True,
    tick_unit: float = 1.0,
) -> Element | None:
    """An `<svg>` element; None where fewer than two of the values are known.

    Args:
        times: Seconds, negative before now, ascending.
        values: One for each time; NaN where it is not known. The line is broken there, and where one cannot be drawn.
        span: Seconds that the axis reaches back.
        name: What is drawn, for the label that a screen reader reads.
        write: Writes a value as text.
        height: Height of the whole chart, in pixels.
        from_zero: Whether the axis begins at 0, as that of an amount should.
        limit: Where to draw a line across the chart, such as the size of the memory.
        with_times: Whether times are written below it; of charts one above the other only the last needs them.
        tick_unit: Unit of which levels are round numbers, such as 2**30 for bytes that are written in GiB.
    """
    runs = [
        list(run)
        for drawable, run in groupby(zip(times, values, strict=True), key=lambda pair: abs(pair[1]) < _MOST)
        if drawable
    ]
    known = [pair for run in runs for pair in run]
    if len(known) < 2:
        return None
    bottom = height - (_AXIS if with_times else 4)
    found = [value for _, value in known]
    up = _scale(found, bottom, from_zero, limit)
    scale = Scale(-span, 0.0, 0.0, 100.0)
    last = known[-1]
    label = f"{name} over time: now {write(last[1])}, lowest {write(min(found))}, highest {write(max(found))}"
    return chart(
        height,
        label,
        *_levels(up, write, tick_unit),
        stretched(height, *(shape for run in runs for shape in _line(run, scale, up, fill=from_zero))),
        _limit(up, limit, write),
        tag("circle", class_="last", cx=f"{scale.at(last[0]):.2f}%", cy=up.at(last[1]), r="3"),
        *_pointed_at(known, scale, bottom, write),
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
    if high - low < _LEAST:
        room = 0.5 * (abs(high) if abs(high) > _LEAST else 1.0)
        high, low = high + room, low - (0.0 if from_zero else room)
    return Scale(low, high + (high - low) * 0.08, bottom, _TOP)


_USUAL: Final = 0.95
_FAR_ABOVE: Final = 3.0
_ROOM_ABOVE: Final = 1.5
"""A line leaves the chart at its top where its highest value is more than _FAR_ABOVE times the _USUAL quantile: a few
moments such as the first steps, which wait for nothing, would flatten all the rest. Their values are shown under the
pointer. The axis then ends at _ROOM_ABOVE times that quantile."""

_LIMIT_IN_SIGHT: Final = 3.0
"""How many times the highest value a limit may be to be drawn: a higher one would flatten the line at the bottom."""


def _levels(up: Scale, write: Callable[[float], str], tick_unit: float) -> Iterator[Element]:
    for tick in up.ticks(3, tick_unit):
        y = up.at(tick)
        yield level(y)
        yield level_name(write(tick) if tick else "0", y)


def _limit(up: Scale, limit: float | None, write: Callable[[float], str]) -> Element | None:
    if limit is None or limit > up.high:
        return None
    y = up.at(limit)
    return tag(
        "g",
        level(y, "limit"),
        tag("text", f"limit {write(limit)}", class_="tick", x="100%", y=y - 4, text_anchor="end"),
    )


def _line(run: Sequence[tuple[float, float]], scale: Scale, up: Scale, *, fill: bool) -> Iterator[Element]:
    across = _across(run, scale)
    line = " ".join(map("{:.2f},{:.1f}".format, across, up.all_at(value for _, value in run)))
    if fill and len(run) > 1:
        corners = f"{line} {across[-1]:.2f},{up.start} {across[0]:.2f},{up.start}"
        yield tag("polygon", class_="under-line", points=corners)
    yield tag("polyline", class_="line", points=line)


def _pointed_at(
    known: Sequence[tuple[float, float]], scale: Scale, bottom: float, write: Callable[[float], str]
) -> Iterator[Element]:
    across = _across(known, scale)
    for index, start, end in bands(across, _BANDS, across[0], across[-1]):
        time, value = known[index]
        yield band(f"{write(value)}\n{duration(-time)} ago", start, end, _TOP, bottom)


def _across(known: Sequence[tuple[float, float]], scale: Scale) -> list[float]:
    return scale.all_at(max(scale.low, time) for time, _ in known)
