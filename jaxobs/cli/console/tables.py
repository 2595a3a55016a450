"""Tables of the commands as text: no lines, aligned, and escape sequences only for a terminal.

The summary of a run has tables without rich (`text_table`): it is written at the end of a job and when memory runs out,
and to import rich takes 47 modules and some 35 ms there (Python 3.11, two cores, warm cache).
"""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxobs.report.text_table import printable


def new_table(*columns: str, title: str = "", left: Iterable[str] = ()) -> Table:
    """The first column and those named in `left` are aligned left, the others right."""
    table = Table(box=None, show_edge=False, padding=(0, 2, 0, 0), title=title or None)
    table.title_justify, table.title_style = "left", "bold"
    table.caption_justify = "left"
    for index, column in enumerate(columns):
        justify = "left" if index == 0 or column in left else "right"
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return table


def add_row(table: Table, *cells: str) -> None:
    """Cells are shown as they are: a function's name may look like rich's markup."""
    table.add_row(*(Text(printable(cell)) for cell in cells))


def to_text(parts: Iterable[Table | str], *, width: int, colour: bool) -> str:
    """Lines and tables below each other, without a newline at the end; lines are not wrapped."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=colour,
        no_color=not colour,
        highlight=False,
        legacy_windows=False,
        _environ={},  # COLUMNS, NO_COLOR and the like are the caller's to read
    )
    for part in parts:
        if isinstance(part, str):
            text.write(printable(part) + "\n")
        else:
            console.print(part)
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip().splitlines())
