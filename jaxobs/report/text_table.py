"""Tables as plain text: aligned, without ruled lines; a cell that is too wide for its column is wrapped."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from jaxobs.vocabulary.text import printable

PLAIN_WIDTH = 100
"""Width in columns where there is no terminal: most logs show this many without wrapping."""

_GAP = "  "
_MIN_COLUMN = 8
"""Least width of a column, unless its heading is wider: one letter a line cannot be read."""

_BEFORE_UNIT = re.compile(r"(?<=\d) (?=\S)")
_TIED = "\u00a0"
"""A no-break space, which holds a number and its unit together while columns are fitted and cells are wrapped. Not by its
name: to compile that Python imports `unicodedata`, and a job may have one of its own."""


@dataclass(slots=True)
class TextTable:
    """Rows of cells. The first column and those named in `left` are aligned left, the others right."""

    columns: Sequence[str]
    title: str = ""
    left: Sequence[str] = ()
    caption: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row; each cell is shown as it is, but for letters that cannot be printed."""
        self.rows.append(tuple(printable(cell) for cell in cells))

    def lines(self, width: int, *, bold: bool = False) -> Iterator[str]:
        """The lines of the table, at most `width` columns wide if possible; `bold`: emphasised for a terminal."""
        widths = _fitting(list(zip(self.columns, *self.rows, strict=True)), width)
        sides = ["<" if not at or title in self.left else ">" for at, title in enumerate(self.columns)]
        emphasis = ("\x1b[1m", "\x1b[0m") if bold else ("", "")
        if self.title:
            yield printable(self.title).join(emphasis)
        for number, row in enumerate([tuple(map(printable, self.columns)), *self.rows]):
            folded = [_folded(cell, room) for cell, room in zip(row, widths, strict=True)]
            for depth in range(max(map(len, folded))):
                cells = (cell[depth] if depth < len(cell) else "" for cell in folded)
                aligned = (
                    f"{cell:{side}{room}}" for cell, side, room in zip(cells, sides, widths, strict=True)
                )
                line = _GAP.join(aligned).rstrip()
                yield line if number else line.join(emphasis)
        if self.caption:
            yield printable(self.caption)


def to_text(parts: Iterable[TextTable | str], *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
    """The lines and tables as one text, without a newline at the end.

    Lines are wrapped for a terminal, where it is `bold`: that would break them within words. A log is easier to search.
    """
    lines: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            lines += part.lines(width, bold=bold)
            continue
        line = printable(part).rstrip()
        rest = " " * (len(line) - len(line.lstrip()) + 2)
        lines += wrapped(line, width, rest=rest) if bold and len(line) > width else [line]
    return "\n".join(lines)


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """The text in lines of at most `width` columns, of which none ends between a number and its unit.

    The first of them is indented by `first`, and the rest by `rest`.
    """
    lines = textwrap.wrap(
        _tied(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return [line.replace(_TIED, " ") for line in lines]


def cut(words: str, width: int) -> str:
    """The beginning of the text, at most `width` letters, with an ellipsis where it is cut."""
    return words if len(words) <= width else words[: max(0, width - 1)] + "…"


def end_of(words: str, width: int) -> str:
    """The end of the text, at most `width` letters, with an ellipsis where it is cut."""
    return words if len(words) <= width else "…" + words[len(words) - width + 1 :]


def first_of(names: Sequence[str], most: int) -> str:
    """The first names, at most `most`, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _fitting(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Widths of the columns: those of their widest cells, of which the widest shrink until they fit into `width`.

    Words of up to a third of the width are broken only where that is not enough.
    """
    widths = [min(width, max(map(len, column))) for column in columns]
    words = [min(width // 3, max(map(len, " ".join(map(_tied, column)).split(" ")))) for column in columns]
    for least in (words, [_MIN_COLUMN] * len(columns)):
        able = [index for index, held in enumerate(widths) if held > least[index]]
        while able and sum(widths) + len(_GAP) * (len(widths) - 1) > width:
            widest = max(able, key=widths.__getitem__)
            widths[widest] -= 1
            able = [index for index in able if widths[index] > least[index]]
    return widths


def _folded(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    return wrapped(cell, width) or [""]


def _tied(cell: str) -> str:
    return _BEFORE_UNIT.sub(_TIED, cell)
