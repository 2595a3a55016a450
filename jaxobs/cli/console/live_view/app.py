"""The live view as a Textual application: it draws ranks and panels, and handles keys."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.css.query import NoMatches
from textual.geometry import Size
from textual.widgets import DataTable, Footer, Static

from jaxobs.cli import UsageError, using
from jaxobs.cli.console.live_view.palette import styled
from jaxobs.cli.console.live_view.panels import (
    CompilesPanel,
    ExecutablesPanel,
    OperationsPanel,
    Panel,
    RooflinePanel,
    StepsPanel,
)
from jaxobs.cli.console.live_view.table import SortedTable
from jaxobs.cli.console.live_view.watch import Watch, Watched
from jaxobs.report.terminal.ranks import columns, rank_rows
from jaxobs.report.terminal.steps import opening
from jaxobs.vocabulary.text import printable

if TYPE_CHECKING:
    from textual.events import Resize

_ANSWERS_SECONDS: Final = 0.4
"""Seconds that a refresh waits for answers; later ones are shown by the next refresh."""

_PANELS: Final[dict[str, type[Panel]]] = {
    "steps": StepsPanel, "roofline": RooflinePanel, "executables": ExecutablesPanel, "operations": OperationsPanel,
    "compiles": CompilesPanel,
}  # fmt: skip

_ABOVE: Final = ("steps", "roofline")
"""Panels that a large terminal shows side by side, above one of the others."""


_LARGE: Final = Size(120, 36)
"""Columns and rows from which on there is room for three panels."""


class TopApp(App[None]):
    """Fetches from all ranks every `refresh` seconds, and draws the chosen one."""

    CSS_PATH = "view.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at + 1), f"panel('{name}')", name) for at, name in enumerate(_PANELS)),
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
            for name, panel in _PANELS.items():
                yield panel(id=name, classes="panel")
        yield Footer(show_command_palette=False, compact=True)

    async def on_mount(self) -> None:
        self.title = "jaxobs top"
        self._place_panels()
        self.run_worker(self._follow(), exclusive=True)

    async def _follow(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._watch.refresh, _ANSWERS_SECONDS)
            except UsageError as error:
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
                view = chosen.view(self._loop_name)
                opened.update(styled(opening(view, chosen.problem)))
                self._draw_ranks(view.loop)
                for panel in map(self.query_one, _PANELS.values()):
                    if panel.display:
                        panel.draw(view)
        except UsageError as error:
            opened.update(Text(printable(str(error))))

    def _draw_ranks(self, loop: str | None) -> None:
        table = self.query_one("#ranks", SortedTable)
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
        """Show three panels on a large terminal, else the chosen one."""
        large = self.size.width >= _LARGE.width and self.size.height >= _LARGE.height
        below = self._panel if self._panel not in _ABOVE else "executables"
        for name, kind in _PANELS.items():
            panel = self.query_one(kind)
            panel.display = name in {*_ABOVE, below} if large else name == self._panel
        self.screen.set_class(large, "-large")

    def action_panel(self, name: str) -> None:
        """Show this panel, and give it the focus."""
        self._panel = name
        self._place_panels()
        # At once and not at the next refresh, because the next key may have been pressed already.
        self.screen.set_focus(self.query_one("#newest" if name == "compiles" else f"#{name}"))
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
            view = self._chosen.view(self._loop_name)
            names = list(view.loops)
            self._loop_name = names[(names.index(view.loop) + 1) % len(names)] if view.loop in names else None
            self.draw()

    def action_sort(self) -> None:
        """Sort by the next column, in the focused table or else in the one that is shown."""
        if (table := self._table()) is not None:
            table.sort_next()

    def action_reverse(self) -> None:
        if (table := self._table()) is not None:
            table.reverse()

    def _table(self) -> SortedTable | None:
        if isinstance(self.focused, SortedTable) and self.focused.display:
            return self.focused
        return next(
            (table for table in self.query("#panels SortedTable").results(SortedTable) if table.display), None
        )

    def _choose(self, rank: Watched) -> None:
        if rank is not self._chosen:
            self._chosen = rank
            self.draw()  # first, as the rank may have come since the last time
            table = self.query_one("#ranks", SortedTable)
            shown = [row["watched"] for row in table.rows_shown]
            if rank in shown:
                table.move_cursor(row=shown.index(rank), animate=False)
