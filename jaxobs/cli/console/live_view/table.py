"""A table that is sorted by a chosen column and updates only cells that have changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from jaxobs.cli.console.live_view.palette import BAD
from jaxobs.report.columns import Column, Row, sorted_rows, words
from jaxobs.report.terminal.ranks import GONE, LAGGING
from jaxobs.report.text_table import cut

_SPARE_WIDTH: Final = 4
"""Spare characters that a column may have before it is narrowed, because figures grow and shrink."""

_SHORTENED: Final = 14
"""Characters to which names are shortened before a column is left out."""

_PADDING: Final = 2
"""Characters of padding of each cell."""


class SortedTable(DataTable[Text]):
    """A sortable table, without the columns in which every cell is empty."""

    def __init__(self, title: str, spare: Sequence[str] = (), **settings: Any) -> None:
        """`spare`: titles of columns that are left out, in this order, where there is no room for all."""
        super().__init__(cursor_type="row", zebra_stripes=False, **settings)
        self.border_title = title
        self._spare = spare
        self._given: tuple[Sequence[Column], Sequence[Row]] = ((), ())
        self._columns_shown: list[Column] = []
        self._cells: list[tuple[str, ...]] = []
        self._headings: list[str] = []
        self._widths: list[int] = []
        self._sorted_by: str | None = None
        self._descending = True
        self.rows_shown: list[Row] = []

    def show_rows(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Show these rows, sorted by the chosen column or else in the given order."""
        self._given = (columns, rows)
        by = next((column for column in columns if column.title == self._sorted_by), None)
        self.rows_shown = list(rows) if by is None else sorted_rows(rows, by, descending=self._descending)
        texts = {column: [words(column, row) for row in self.rows_shown] for column in columns}
        kept = self._fitting({column: cells for column, cells in texts.items() if any(cells)})
        headings = [self._heading(column) for column in kept]
        cells = list(
            zip(
                *([cut(cell, width) for cell in texts[column]] for column, width in kept.items()),
                strict=True,
            )
        )
        self._columns_shown = list(kept)
        if headings == self._headings and len(cells) == len(self._cells) and self._has_room(kept):
            self._write_changes(cells)
        else:
            self._widths = list(kept.values())
            self._write_anew(headings, cells)
        self._headings, self._cells = headings, cells

    def _fitting(self, texts: Mapping[Column, Sequence[str]]) -> dict[Column, int]:
        """The columns that fit, with their widths. Spare columns are left out first, then long names are shortened."""
        needed = {column: max(map(len, (self._heading(column), *cells))) for column, cells in texts.items()}
        room = self.scrollable_content_region.width or sum(needed.values()) + _PADDING * len(needed)
        least = {column: min(width, _SHORTENED) if column.text else width for column, width in needed.items()}
        for title in self._spare:
            if sum(least.values()) + _PADDING * len(least) <= room:
                break
            least = {column: width for column, width in least.items() if column.title != title}
        left = room - sum(least.values()) - _PADDING * len(least)
        for column, width in least.items():
            more = max(0, min(left, needed[column] - width))
            least[column] += more
            left -= more
        return least

    def _has_room(self, needed: Mapping[Column, int]) -> bool:
        """Whether the columns on the screen are wide enough, and not much too wide."""
        spare = [has - needs for has, needs in zip(self._widths, needed.values(), strict=True)]
        return all(0 <= width <= _SPARE_WIDTH for width in spare)

    def sort_next(self) -> None:
        """Sort by the column to the right of the present one; after the last comes the given order."""
        titles: list[str | None] = [None, *(column.title for column in self._columns_shown)]
        at = titles.index(self._sorted_by) if self._sorted_by in titles else 0
        self._sort(titles[(at + 1) % len(titles)])

    def reverse(self) -> None:
        self._descending = not self._descending
        self.show_rows(*self._given)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the clicked column, or reverse the order if it is sorted by that already."""
        chosen = self._columns_shown[event.column_index].title
        if chosen == self._sorted_by:
            self.reverse()
        else:
            self._sort(chosen)

    def _sort(self, title: str | None) -> None:
        self._sorted_by = title
        column = next((column for column in self._columns_shown if column.title == title), None)
        self._descending = column is None or not column.text  # the largest first, names from A on
        self.show_rows(*self._given)

    def _heading(self, column: Column) -> str:
        if column.title != self._sorted_by:
            return column.title
        return f"{column.title} {'▼' if self._descending else '▲'}"

    def _write_anew(self, headings: Sequence[str], cells: Sequence[tuple[str, ...]]) -> None:
        row, scroll = self.cursor_row, self.scroll_offset
        self.clear(columns=True)
        for heading, column, width in zip(headings, self._columns_shown, self._widths, strict=True):
            self.add_column(Text(heading, justify="left" if column.text else "right"), width=width)
        for line in cells:
            self.add_row(*map(self._cell, line, self._columns_shown))
        if cells:
            self.move_cursor(row=min(row, len(cells) - 1), animate=False)
            self.scroll_to(*scroll, animate=False)

    def _write_changes(self, cells: Sequence[tuple[str, ...]]) -> None:
        for y, (line, before) in enumerate(zip(cells, self._cells, strict=True)):
            for x, cell in enumerate(line):
                if cell != before[x]:
                    self.update_cell_at(Coordinate(y, x), self._cell(cell, self._columns_shown[x]))

    @staticmethod
    def _cell(cell: str, column: Column) -> Text:
        marked = cell.endswith((LAGGING, GONE))
        return Text(cell, justify="left" if column.text else "right", style=BAD if marked else "")
