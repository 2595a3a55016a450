"""The panels of the live view, each of which is drawn from a rank's view while it is on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.containers import Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from jaxobs.cli.console.live_view.palette import styled
from jaxobs.cli.console.live_view.table import SortedTable
from jaxobs.report.columns.compilations import AGAIN, NEWEST, functions, newest, recompilations
from jaxobs.report.columns.executables import EXECUTABLES, OPERATIONS
from jaxobs.report.page.view import View
from jaxobs.report.terminal.roofline import roofline
from jaxobs.report.terminal.steps import steps

if TYPE_CHECKING:
    from textual.app import ComposeResult


class Panel(Widget):
    """A panel that is drawn from a rank's view."""

    def draw(self, view: View) -> None:
        raise NotImplementedError


class StepsPanel(VerticalScroll, Panel):
    """The loops, and where the time of a step of the chosen one goes."""

    def compose(self) -> ComposeResult:
        self.border_title = "Where a step goes"
        yield Static(id="steps-text")

    def draw(self, view: View) -> None:
        self.query_one("#steps-text", Static).update(styled(steps(view, self.size.width)))


class RooflinePanel(Static, Panel):
    """The roofline: how near to the device's peaks the job is."""

    def on_mount(self) -> None:
        self.border_title = "Roofline"

    def draw(self, view: View) -> None:
        """Draw the present state in the panel's present size."""
        width, height = self.content_size
        self.update(styled(roofline(view.document, width, height)))


class ExecutablesPanel(SortedTable, Panel):
    """All known executables."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("Executables", ("attainable", "bytes", "executable", "FLOP"), **settings)

    def draw(self, view: View) -> None:
        self.show_rows(EXECUTABLES, view.document.get("executables") or ())


class OperationsPanel(SortedTable, Panel):
    """The operations that took most time in profiler windows."""

    def __init__(self, **settings: Any) -> None:
        spare = ("FLOP/byte", "FLOP/s", "function", "line")
        super().__init__("Operations in profiler windows", spare, **settings)

    def draw(self, view: View) -> None:
        operations = view.document.get("operations") or ()
        reason = view.document.get("operations_reason")
        # As a text, in which brackets are no markup of Textual's.
        self.border_subtitle = Text(f"none: {reason}" if reason and not operations else "")
        self.show_rows(OPERATIONS, operations)


class CompilesPanel(Vertical, Panel):
    """The newest compiles with their causes, and what was compiled again."""

    def compose(self) -> ComposeResult:
        yield SortedTable("Newest compiles", id="newest")
        yield SortedTable("Compiled again", id="again")

    def draw(self, view: View) -> None:
        again = recompilations(functions(view.document))
        self.query_one("#newest", SortedTable).show_rows(NEWEST, newest(view.document))
        table = self.query_one("#again", SortedTable)
        table.set_class(bool(again), "-known")
        table.show_rows(AGAIN, again)
