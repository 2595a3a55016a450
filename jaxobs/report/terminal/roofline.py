"""The roofline as text: roofs of braille dots, a capital letter for an executable and a small one for an operation.

It shows what jaxobs.report.drawing.roofline draws; points, roofs and axes come from the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat, zip_longest
from string import ascii_lowercase, ascii_uppercase
from textwrap import wrap
from typing import Final

from jaxobs.model.snapshot import Document
from jaxobs.report.drawing import Point, Roof
from jaxobs.report.drawing.axes import LogScale, short
from jaxobs.report.page.rooflines import points_of, roofs_of, why_incomplete
from jaxobs.report.terminal.spans import Line, Span, line_of
from jaxobs.report.text_table import cut
from jaxobs.vocabulary.units import ABSENT, amount, rough_percent

_GUTTER: Final = 7
"""Columns for the names of levels, such as `500 G`."""

_KEY: Final = 48
_LEAST_KEY: Final = 34
"""Most and least columns of the key: a letter, some of the name, the efficiency, and the longest bottleneck."""

_LEAST_PLOT: Final = 22
_MORE: Final = "·"
"""Stands for the smaller points, which have no letter of their own."""

_LABEL: Final = len("communication")
_LEAST_HEIGHT: Final = 6
_MARGIN: Final = 0.3
"""Decades left free around what is drawn."""

_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the braille letters from U+2800 on, by column and row within the letter (Unicode 16, chapter 21.1)."""

Cells = list[list[tuple[str, str]]]


def roofline(document: Document, width: int, height: int) -> Iterator[Line]:
    """At most `height` lines of `width` columns: the plot at the left, and the key to its letters at the right."""
    points, roofs = points_of(document), roofs_of(document)
    named = _named(points)
    key = min(_KEY, max(_LEAST_KEY, width // 3)) if width >= _GUTTER + _LEAST_PLOT + _LEAST_KEY else 0
    drawn = [*_plot(roofs, named, width - key - bool(key), height)] if points or roofs else []
    about = [*_key(named, key - 1)] if key > 1 else []
    about += [
        (Span(line, "quiet"),)
        for reason in why_incomplete(document, points)
        for line in wrap(reason, max(12, key or width))
    ]
    if not drawn or not key:
        yield from drawn or about[:height]
        return
    for left, right in zip_longest(drawn, about[: len(drawn)], fillvalue=()):
        yield (*left, Span(" "), *right)


def _named(points: Sequence[Point]) -> list[tuple[str, Point]]:
    """Each point with its letter, the largest of its kind first; those beyond the alphabet have _MORE."""
    found: list[tuple[str, Point]] = []
    for kind, letters in (("executable", ascii_uppercase), ("operation", ascii_lowercase)):
        largest = sorted((point for point in points if point.kind == kind), key=lambda point: -point.share)
        found += zip(chain(letters, repeat(_MORE)), largest, strict=False)
    return found


def _plot(
    roofs: Sequence[Roof], named: Sequence[tuple[str, Point]], width: int, height: int
) -> Iterator[Line]:
    """The plot with its axes; the last line has the intensities."""
    columns, rows = max(8, width - _GUTTER), max(_LEAST_HEIGHT, height) - 2
    points = [point for _, point in named]
    across = LogScale.around(
        [point.intensity for point in points] + [roof.ridge for roof in roofs], _MARGIN, 0, columns - 1
    )
    low, _ = across.ends
    rates = [rate for roof in roofs for rate in (roof.at(low), roof.flops_per_second)]
    up = LogScale.around([*(point.rate for point in points), *rates], _MARGIN, rows - 1, 0)
    cells: Cells = [[(" ", "") for _ in range(columns)] for _ in range(rows)]
    levels = {round(up.at(tick)): short(tick) for tick in up.ticks()}
    _draw_roofs(cells, roofs, across, up)
    for letter, point in reversed(named):  # the largest last, above the others
        x, y = round(across.at(point.intensity)), round(up.at(point.rate))
        cells[min(rows - 1, max(0, y))][min(columns - 1, max(0, x))] = (letter, point.bottleneck)
    for index, row in enumerate(cells):
        name = levels.get(index, "")
        yield (Span(f"{name:>{_GUTTER - 1}}{'┤' if name else '│'}", "quiet"), *line_of(row))
    yield (Span(f"{'FLOP/s':>{_GUTTER - 1}}└{'─' * columns}", "quiet"),)
    yield (Span(" " * _GUTTER + _intensities(across, columns), "quiet"),)


def _draw_roofs(cells: Cells, roofs: Sequence[Roof], across: LogScale, up: LogScale) -> None:
    columns, rows = len(cells[0]), len(cells)
    bits = [[0] * columns for _ in range(rows)]
    for roof in roofs:
        before: int | None = None
        for dot in range(2 * columns):
            intensity = 10.0 ** (across.low + (across.high - across.low) * (dot - 0.5) / 2 / (columns - 1))
            level = round(4 * up.at(roof.at(intensity)) + 1.5)
            for y in _between(before, level):
                if 0 <= y < 4 * rows:
                    bits[y // 4][dot // 2] |= _DOTS[dot % 2][y % 4]
            before = level
    for y, row in enumerate(bits):
        for x, dots in enumerate(row):
            if dots:
                cells[y][x] = (chr(0x2800 + dots), "roof")
    for roof in roofs:
        name = f"{roof.dtype} {amount(roof.flops_per_second, 'FLOP/s')}"[:columns]
        _write(cells, round(up.at(roof.flops_per_second)) - 1, columns - len(name), name)


def _between(before: int | None, level: int) -> range:
    """The levels to be dotted from one column to the next, so that a steep line has no gaps."""
    if before is None or before == level:
        return range(level, level + 1)
    return range(level, before) if level < before else range(before + 1, level + 1)


def _write(cells: Cells, y: int, x: int, words: str) -> None:
    """Write words from (x, y) to the right, if all of these cells are empty."""
    if 0 <= y < len(cells) and x >= 0 and all(cells[y][x + at][0] == " " for at in range(len(words))):
        for at, letter in enumerate(words):
            cells[y][x + at] = (letter, "quiet")


def _intensities(across: LogScale, columns: int) -> str:
    line = [" "] * columns
    unit = "FLOP/byte"
    for tick in across.ticks():
        name = f"{tick:g}"
        start = round(across.at(tick)) - len(name) // 2
        free = start >= 0 and start + len(name) < columns - len(unit) - 1
        if free and all(letter == " " for letter in line[max(0, start - 1) : start + len(name) + 1]):
            line[start : start + len(name)] = name
    return "".join(line[: columns - len(unit)]) + unit


def _key(named: Sequence[tuple[str, Point]], width: int) -> Iterator[Line]:
    """The key, with lines such as `A train_step  41 % compute`: the share of the roof reached, and what limits it."""
    room = width - len("A ") - len(" 0.078 % ") - _LABEL
    if named:
        yield (Span(f"  {'':<{room}} of roof limited by", "quiet"),)
    for letter, point in named:
        if letter == _MORE:
            continue
        reached = rough_percent(point.rate / point.attainable) if point.attainable else ABSENT
        name = cut(point.name, room)
        yield (
            Span(f"{letter} ", point.bottleneck),
            Span(f"{name:<{room}}"),
            Span(f"{reached:>8} {point.bottleneck}", "quiet"),
        )
