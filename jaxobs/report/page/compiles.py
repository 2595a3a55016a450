"""The section of compilations: what was recompiled and why, the newest compiles, and the compiled functions."""

from __future__ import annotations

from typing import Final

from jaxobs.model.snapshot import all_compile_seconds
from jaxobs.report.columns import compilations as columns
from jaxobs.report.drawing import Element, tag
from jaxobs.report.page.parts import card, folded, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import duration

_AGAIN: Final = 12
_FUNCTIONS: Final = 40


def compilations(view: View) -> Element | None:
    """The section; None where nothing was compiled."""
    rows = columns.functions(view.document)
    if not rows:
        return None
    recompiled, recent = columns.recompilations(rows), columns.newest(view.document)
    number = sum(row.get("compilations") or 0 for row in rows)
    left = len(recompiled) - _AGAIN
    left_out = view.document.get("functions_left_out") or 0
    return card(
        "Compiled again" if recompiled else "Compiled",
        table(
            columns.AGAIN,
            recompiled[:_AGAIN],
            caption="Compiled again",
            more=f"{left} cheaper ones are in the snapshot." if left > 0 else "",
        )
        if recompiled
        else tag("p", "Nothing was compiled twice."),
        folded(
            "Newest compiles",
            table(columns.NEWEST, recent, caption="Newest compiles, seconds ago"),
            name="newest-table",
        ),
        folded(
            f"Functions ({len(rows) + left_out})",
            table(columns.FUNCTIONS, rows[:_FUNCTIONS], caption="Compiled functions"),
            name="functions-table",
        ),
        name="compiles",
        note=f"{'at least ' if left_out else ''}{number} compiles took {duration(all_compile_seconds(view.document))}",
    )
