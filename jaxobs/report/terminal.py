"""A run in a terminal: how it goes, bars of a step's parts, the roofline of braille dots.

Lines are made of words with a style; which colour a style has is decided elsewhere. What is shown comes from the view, as
on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat, zip_longest
from operator import itemgetter
from string import ascii_lowercase, ascii_uppercase
from textwrap import wrap
from typing import Final, NamedTuple

from jaxobs.model.snapshot import Document, main_thread_lines
from jaxobs.report.charts import LogScale, short
from jaxobs.report.rooflines import Point, axes, points_of, roofs_of, why_incomplete
from jaxobs.report.sentence import pieces, without_quotes
from jaxobs.report.text_table import cut
from jaxobs.report.view import (
    VISIBLE,
    View,
    advice,
    answer,
    facts,
    known_figures,
    parts_of_a_step,
    reasons,
    run_name,
)
from jaxobs.roofline_model.bounds import Roof
from jaxobs.vocabulary.units import ABSENT, amount, count, duration, rough_percent
from jaxobs.vocabulary.words import COMPONENTS


class Span(NamedTuple):
    """Some words and their style: a component of wall time (its colour), `strong`, `quiet`, `bad`, or none."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def line_of(cells: Iterable[tuple[str, str]]) -> Line:
    """A line of letters with styles: neighbours of one style share a span."""
    runs = groupby(cells, key=itemgetter(1))
    return tuple(Span("".join(letter for letter, _ in run), style) for style, run in runs)


def with_code(sentence: str, style: str = "") -> Line:
    """A sentence as a line; its names and what matters most are strong."""
    return tuple(Span(words, "strong" if mark else style) for words, mark in pieces(sentence))


_MAX_BAR: Final = 60
"""Most columns of a bar: a longer one is no easier to read."""

_HOST_LINES: Final = 4
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def opening(view: View, problem: str | None) -> Iterator[Line]:
    """The facts, the sentence, and the problem in a line of its own where there is one."""
    if view.document:
        known = (Span(f" · {fact}", "quiet") for fact in facts(view.document))
        yield (Span(run_name(view.document), "strong"), *known)
        yield with_code(answer(view))
    if problem:
        yield (Span(problem, "bad"),)


def steps(view: View, width: int) -> Iterator[Line]:
    """A line for each loop, bars for the parts of a step of the chosen one, host lines, absent figures, and advice."""
    if view.loop is None:
        yield (Span(without_quotes(answer(view)), "quiet"),)
        return
    for name in sorted(view.loops, key=lambda name: name != view.loop):
        style = "" if name == view.loop else "quiet"
        steps_ended = count(view.loops[name].get("steps") or 0, "step")
        figures = " · ".join([steps_ended, *map(" ".join, known_figures(view, name))])
        yield (Span(f"{name}  ", style or "strong"), Span(figures, style))
        if name == view.loop:
            yield from bars(view, width)
            yield ()
    if lines := main_thread_lines(view.loops[view.loop])[:_HOST_LINES]:
        yield (Span("host lines  ", "strong"), Span(cut(" · ".join(lines), 3 * width)))
    yield from ((Span(reason, "quiet"),) for reason in reasons(view))
    for why, how, gain in advice(view.document):
        yield (Span("→ ", "strong"), *with_code(f"{why} "), *with_code(f"{how} {gain}".rstrip(), "quiet"))


def bars(view: View, width: int) -> Iterator[Line]:
    """A bar for each component of a step, in the order of the stack that the page draws."""
    parts, since = parts_of_a_step(view)
    seconds = sum(parts.values())
    if seconds <= 0:
        yield (Span("No step has been seen to end yet.", "quiet"),)
        return
    names = max(map(len, COMPONENTS))
    room = max(8, min(_MAX_BAR, width - names - len("  100 %  999 ms") - 4))
    for name in [name for name in COMPONENTS if parts.get(name, 0.0) >= VISIBLE * seconds]:
        share = parts[name] / seconds
        figures = f"{rough_percent(share):>6}  {duration(parts[name]):>8}"
        yield (Span(f"{name:<{names}} "), Span(bar(share, room), name), Span(figures))
    yield (Span(f"{duration(seconds)} a step {since}, all its parts together", "quiet"),)


def bar(share: float, width: int) -> str:
    """A bar of eighths of a column for a share from 0 to 1, filled up with spaces."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


_GUTTER: Final = 7
"""Columns for the names of levels, such as `500 G`."""

_MAX_KEY: Final = 48
_MIN_KEY: Final = 34
"""Most and least columns of the key: a letter, some of the name, the efficiency, and the longest bottleneck."""

_MIN_PLOT: Final = 22
_MORE: Final = "·"
"""Stands for the smaller points, which have no letter of their own."""

_LABEL: Final = len("communication")
_MIN_HEIGHT: Final = 6

_DOTS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the braille letters from U+2800 on, by column and row within the letter (Unicode 16, chapter 21.1)."""

Cells = list[list[tuple[str, str]]]


def roofline(document: Document, width: int, height: int) -> Iterator[Line]:
    """At most `height` lines of `width` columns: the plot at the left, and the key to its letters at the right."""
    points, roofs = points_of(document), roofs_of(document)
    named = _named(points)
    key = min(_MAX_KEY, max(_MIN_KEY, width // 3)) if width >= _GUTTER + _MIN_PLOT + _MIN_KEY else 0
    drawn = [*_plot(roofs, named, width - key - bool(key), height)] if points or roofs else []
    about = list(_key(named, key - 1)) if key else []
    for reason in why_incomplete(document, points):
        about += [(Span(line, "quiet"),) for line in wrap(reason, max(12, key or width))]
    if not drawn or not key:
        return iter(drawn or about[:height])
    beside = zip_longest(drawn, about[: len(drawn)], fillvalue=())
    return ((*left, Span(" "), *right) for left, right in beside)


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
    columns, rows = max(8, width - _GUTTER), max(_MIN_HEIGHT, height) - 2
    across, up = axes(roofs, [point for _, point in named], (0, columns - 1), (rows - 1, 0))
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
        steep = (up.at(roof.at(across.value((dot - 0.5) / 2))) for dot in range(2 * columns))
        levels = [round(4 * y + 1.5) for y in steep]
        for dot, (level, before) in enumerate(zip(levels, [levels[0], *levels], strict=False)):
            for y in range(level, max(level + 1, before)):  # a steep line has no gaps
                if 0 <= y < 4 * rows:
                    bits[y // 4][dot // 2] |= _DOTS[dot % 2][y % 4]
    for y, row in enumerate(bits):
        for x, dots in enumerate(row):
            if dots:
                cells[y][x] = (chr(0x2800 + dots), "roof")
    for roof in roofs:
        name = f"{roof.dtype} {amount(roof.flops_per_second, 'FLOP/s')}"[:columns]
        _write(cells, round(up.at(roof.flops_per_second)) - 1, columns - len(name), name)


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
        words = Span(f"{cut(point.name, room):<{room}}"), Span(f"{reached:>8} {point.bottleneck}", "quiet")
        yield (Span(f"{letter} ", point.bottleneck), *words)
