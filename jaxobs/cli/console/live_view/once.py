"""Writes the ranks and the summary of one of them as plain text, without Textual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxobs.cli import using
from jaxobs.cli.console.live_view.watch import Watched
from jaxobs.report.columns import plain_table
from jaxobs.report.summary import render
from jaxobs.report.terminal.ranks import columns, rank_rows
from jaxobs.report.text_table import to_text
from jaxobs.vocabulary.text import printable


def text(ranks: Sequence[Watched], *, width: int, bold: bool) -> str:
    """A table where there are several ranks, and the summary of the one that lags, else of the first that answered.

    Raises UsageError for a snapshot that cannot be shown.
    """
    with using("the snapshot"):
        return "\n".join(_parts(ranks, width, bold))


def _parts(ranks: Sequence[Watched], width: int, bold: bool) -> Iterator[str]:
    rows = rank_rows([rank.observed for rank in ranks])
    answered = [
        (row, rank) for row, rank in zip(rows, ranks, strict=True) if rank.document and not rank.problem
    ]
    if len(ranks) > 1:
        table = plain_table(list(columns(rows)), rows, title="ranks", absent="")
        yield to_text([table], width=width, bold=bold)
    if not answered:
        return
    row, chosen = next((pair for pair in answered if pair[0]["lags"]), answered[0])
    if len(ranks) > 1:
        yield from ("", printable(f"rank {row['rank']}{', which lags' if row['lags'] else ''}"))
    yield render(chosen.document, width=width, bold=bold)
