"""The live view as a Textual application: ranks and panels, its tables, and the keys."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.css.query import NoMatches
from textual.geometry import Size
from textual.widgets import DataTable, Footer, Static

from jaxobs.cli import using
from jaxobs.cli.top.watch import Watch, Watched
from jaxobs.report.ranks import GONE, HANGING, LAGGING, columns, rank_rows
from jaxobs.report.tables import (
    AGAIN,
    EXECUTABLES,
    FUNCTIONS,
    OPERATIONS,
    Column,
    Row,
    functions,
    recompilations,
    sorted_rows,
    words,
)
from jaxobs.report.terminal import Line, opening, roofline, steps
from jaxobs.report.text_table import cut
from jaxobs.report.view import View
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import printable
from jaxobs.vocabulary.words import Component

if TYPE_CHECKING:
    from textual.events import Resize


COLOURS: Final = {each.word: each.dark for each in Component}
COLOURS["cache_resident"] = COLOURS["transfer"]
"""Colours by bottleneck, as on the page's dark theme."""

BAD: Final = "bold #ff8a80"

_STYLES: Final = {
    **COLOURS, "strong": "bold", "quiet": "#98a2b3", "bad": BAD, "roof": "#b4bdcb", "": "",
}  # fmt: skip


def styled(lines: Iterable[Line]) -> Text:
    """The lines with their colours; brackets in names are no markup."""
    styles = ([(span.text, _STYLES.get(span.style, "")) for span in line] for line in lines)
    return Text("\n").join(Text.assemble(*line) for line in styles)


_SHORTENED: Final = 14
"""Characters to which names are shortened before a column is left out."""

_PADDING: Final = 2
"""Characters of padding of each cell."""


class SortedTable(DataTable[Text]):
    """A sortable table, without the columns in which every cell is empty."""

    def __init__(self, title: str, spare: Sequence[str] = (), **settings: Any) -> None:
        """`spare`: titles of columns that are left out, in this order, if there is no room for all."""
        super().__init__(cursor_type="row", zebra_stripes=False, **settings)
        self.border_title = title
        self._spare = spare
        self._given: tuple[Sequence[Column], Sequence[Row]] = ((), ())
        self._columns_shown: list[Column] = []
        self._sorted_by: str | None = None
        self._descending = True
        self.rows_shown: list[Row] = []

    def show_rows(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        """Show these rows, sorted by the chosen column or else in the given order; cursor and scrolling stay."""
        self._given = (columns, rows)
        by = next((column for column in columns if column.title == self._sorted_by), None)
        self.rows_shown = list(rows) if by is None else sorted_rows(rows, by, descending=self._descending)
        texts = {column: [words(column, row) for row in self.rows_shown] for column in columns}
        widths = self._fitting({column: cells for column, cells in texts.items() if any(cells)})
        self._columns_shown = list(widths)
        cursor, scroll = self.cursor_row, self.scroll_offset
        self.clear(columns=True)
        for column, width in widths.items():
            self.add_column(self._cell(self._heading(column), column), width=width)
        for at in range(len(self.rows_shown) if widths else 0):
            cells = (self._cell(cut(texts[column][at], width), column) for column, width in widths.items())
            self.add_row(*cells)
        if self.row_count:
            self.move_cursor(row=min(cursor, self.row_count - 1), animate=False)
            self.scroll_to(*scroll, animate=False)

    def _fitting(self, texts: Mapping[Column, Sequence[str]]) -> dict[Column, int]:
        """The columns that fit, with their widths. Spare columns are left out first, then long names are shortened."""
        needed = {column: max(map(len, (self._heading(column), *cells))) for column, cells in texts.items()}
        room = self.scrollable_content_region.width or sum(needed.values()) + _PADDING * len(needed)
        least = {column: min(width, _SHORTENED) if column.text else width for column, width in needed.items()}
        for title in self._spare:
            if sum(least.values()) + _PADDING * len(least) > room:
                least = {column: width for column, width in least.items() if column.title != title}
        left = room - sum(least.values()) - _PADDING * len(least)
        for column, width in least.items():
            least[column] = max(width, min(width + left, needed[column]))
            left -= least[column] - width
        return least

    def sort_next(self) -> None:
        """Sort by the column to the right of the present one; after the last comes the given order."""
        titles: list[str | None] = [None, *(column.title for column in self._columns_shown)]
        at = titles.index(self._sorted_by) if self._sorted_by in titles else 0
        self._sort(titles[(at + 1) % len(titles)])

    def reverse(self) -> None:
        self._sort(self._sorted_by)

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the clicked column, or reverse the order if it is sorted by that already."""
        self._sort(self._columns_shown[event.column_index].title)

    def _sort(self, title: str | None) -> None:
        column = next((column for column in self._columns_shown if column.title == title), None)
        if title == self._sorted_by:
            self._descending = not self._descending
        else:
            self._descending = column is None or not column.text  # the largest first, names from A on
        self._sorted_by = title
        self.show_rows(*self._given)

    def _heading(self, column: Column) -> str:
        if column.title != self._sorted_by:
            return column.title
        return f"{column.title} {'▼' if self._descending else '▲'}"

    @staticmethod
    def _cell(cell: str, column: Column) -> Text:
        marked = cell.endswith((HANGING, LAGGING, GONE))
        return Text(cell, justify="left" if column.text else "right", style=BAD if marked else "")


_ANSWERS_SECONDS: Final = 0.4
"""Seconds that a refresh waits for answers; later ones are shown by the next refresh."""

_PANELS: Final = ("steps", "roofline", "executables", "operations", "compiles")

_ABOVE: Final = ("steps", "roofline")
"""Panels that a large terminal shows side by side, above one of the others."""


_LARGE: Final = Size(120, 36)
"""Columns and rows from which on there is room for three panels."""

_HUGE: Final = Size(160, 52)
"""And from which on there is room for all."""


class TopApp(App[None]):
    """Fetches from all ranks every `refresh` seconds, and draws the chosen one."""

    CSS_PATH = "view.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at), f"panel('{name}')", name) for at, name in enumerate(_PANELS, 1)),
        Binding("n", "rank(1)", "rank"),
        Binding("p", "rank(-1)", "previous rank", show=False),
        Binding("l", "loop", "loop", show=False),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, watch: Watch, refresh: float) -> None:
        super().__init__()
        self.animation_level = "none"  # each frame of an animation is work
        self._watch = watch
        self._refresh_seconds = refresh
        self._chosen: Watched | None = None
        self._loop_name: str | None = None
        self._panel = "steps"
        self._said = ""

    def compose(self) -> ComposeResult:
        yield Static("asking …", id="opening")
        yield SortedTable("Ranks", id="ranks")
        with Container(id="panels"):
            with VerticalScroll(id="steps"):
                yield Static(id="steps-text")
            yield Static(id="roofline")
            spare = ("attainable", "bytes", "executable", "FLOP")
            yield SortedTable("Executables", spare, id="executables")
            spare = ("FLOP/byte", "FLOP/s", "function", "line")
            yield SortedTable("Operations in profiler windows", spare, id="operations")
            with Vertical(id="compiles"):
                yield SortedTable("Compiled functions", id="functions")
                yield SortedTable("Compiled again", id="again")
        yield Footer(show_command_palette=False, compact=True)

    async def on_mount(self) -> None:
        self.title = "jaxobs top"
        self.query_one("#steps").border_title = "Where a step goes"
        self.query_one("#roofline").border_title = "Roofline"
        self._place_panels()
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._watch.refresh, _ANSWERS_SECONDS)
            except InputError as error:
                self._said = str(error)
            with suppress(NoMatches):  # the view is being closed meanwhile
                self.draw()
            await asyncio.sleep(self._refresh_seconds)

    def draw(self) -> None:
        ranks = self._watch.ranks
        if self._chosen not in ranks:
            self._chosen = ranks[0] if ranks else None
        chosen = self._chosen
        opened = self.query_one("#opening", Static)
        if chosen is None:
            opened.update(Text(printable(self._said or "no rank is known yet")))
            return
        try:
            with using(f"the snapshot of {chosen.target}"), self.batch_update():
                view = View(chosen.document, wanted_loop=self._loop_name)
                opened.update(styled(opening(view, chosen.problem)))
                self._draw_ranks(view.loop)
                for name in _PANELS:
                    if self.query_one(f"#{name}").display:
                        self._draw_panel(name, view)
        except InputError as error:
            opened.update(Text(printable(str(error))))

    def _draw_panel(self, name: str, view: View) -> None:
        """Draw a panel in its present size."""
        document = view.document
        if name == "steps":
            width = self.query_one("#steps").size.width
            self.query_one("#steps-text", Static).update(styled(steps(view, width)))
        elif name == "roofline":
            panel = self.query_one("#roofline", Static)
            panel.update(styled(roofline(document, *panel.content_size)))
        elif name == "executables":
            self._table("executables").show_rows(EXECUTABLES, document.get("executables") or ())
        elif name == "operations":
            table, rows = self._table("operations"), document.get("operations") or ()
            reason = document.get("operations_reason")
            # As a text, in which brackets are no markup of Textual's.
            table.border_subtitle = Text(f"none: {reason}" if reason and not rows else "")
            table.show_rows(OPERATIONS, rows)
        else:
            compiled = functions(document)
            again = recompilations(compiled)
            self._table("functions").show_rows(FUNCTIONS, compiled)
            self._table("again").set_class(bool(again), "-known")
            self._table("again").show_rows(AGAIN, again)

    def _table(self, name: str) -> SortedTable:
        return self.query_one(f"#{name}", SortedTable)

    def _draw_ranks(self, loop: str | None) -> None:
        table = self._table("ranks")
        ranks = list(self._watch.ranks)  # the thread that asks adds to them
        table.display = len(ranks) > 1
        rows = rank_rows([rank.observed for rank in ranks], loop)
        rows = [{**row, "watched": rank} for row, rank in zip(rows, ranks, strict=True)]
        table.show_rows(list(columns(rows)), rows)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Choose the rank at the cursor once the user has moved it."""
        table = event.data_table
        is_now = event.cursor_row == table.cursor_row  # else the cursor has been moved since
        if table.id == "ranks" and isinstance(table, SortedTable) and table.has_focus and is_now:
            self._choose(table.rows_shown[event.cursor_row]["watched"])

    def on_resize(self, _: Resize) -> None:
        self.call_after_refresh(self._place_and_draw)

    def _place_and_draw(self) -> None:
        with suppress(NoMatches):  # it is not composed yet
            self._place_panels()
            self.draw()

    def _place_panels(self) -> None:
        """Show three panels on a large terminal, all on a huge one, else the chosen one."""
        width, height = self.size
        large, huge = (width >= least.width and height >= least.height for least in (_LARGE, _HUGE))
        below = self._panel if self._panel not in _ABOVE else "executables"
        for name in _PANELS:
            shown = name in {*_ABOVE, below} if large else name == self._panel
            self.query_one(f"#{name}").display = shown or huge
        self.screen.set_class(large, "-large")
        self.screen.set_class(huge, "-huge")

    def action_panel(self, name: str) -> None:
        """Show this panel, and give it the focus."""
        self._panel = name
        self._place_panels()
        # At once and not at the next refresh, because the next key may have been pressed already.
        self.screen.set_focus(self.query_one("#functions" if name == "compiles" else f"#{name}"))
        self.draw()
        self.call_after_refresh(self.draw)  # once more, when its size is known

    def action_rank(self, step: int) -> None:
        """Choose the next rank, or the previous one."""
        ranks = self._watch.ranks
        if self._chosen in ranks:
            self._choose(ranks[(ranks.index(self._chosen) + step) % len(ranks)])

    def action_loop(self) -> None:
        """Choose the next loop of this rank."""
        if self._chosen is not None:
            view = View(self._chosen.document, wanted_loop=self._loop_name)
            names = list(view.loops)
            self._loop_name = names[(names.index(view.loop) + 1) % len(names)] if view.loop in names else None
            self.draw()

    def action_sort(self) -> None:
        """Sort by the next column, in the focused table or else in the one that is shown."""
        for table in self._sorted_tables():
            table.sort_next()

    def action_reverse(self) -> None:
        for table in self._sorted_tables():
            table.reverse()

    def _sorted_tables(self) -> list[SortedTable]:
        """The table that keys sort, if there is one."""
        if isinstance(self.focused, SortedTable) and self.focused.display:
            return [self.focused]
        tables = self.query("#panels SortedTable").results(SortedTable)
        return [table for table in tables if table.display][:1]

    def _choose(self, rank: Watched) -> None:
        if rank is not self._chosen:
            self._chosen = rank
            self.draw()  # first, as the rank may have come since the last time
            table = self._table("ranks")
            shown = [row["watched"] for row in table.rows_shown]
            if rank in shown:
                table.move_cursor(row=shown.index(rank), animate=False)
