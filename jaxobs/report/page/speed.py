"""The section of charts over time: rates, MFU and values recorded by the user, one above the other on one time axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from jaxobs.report.columns import Column
from jaxobs.report.drawing import Element, line_chart, tag
from jaxobs.report.page.parts import card, folded, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import amount, percent

_RATES: Final[tuple[tuple[str, str, Callable[[float], str]], ...]] = (
    ("steps_per_second", "steps/s", amount),
    ("tokens_per_second", "tokens/s", amount),
    ("mfu", "MFU", percent),
)
_ROWS: Final = 12
"""Most moments in the table below the charts."""

Line = tuple[str, Sequence[float], Callable[[float], str], bool]
"""Name, values, how a value is written, and whether the axis begins at 0."""


def over_time(view: View) -> Element | None:
    """The section; None where there is nothing to draw yet."""
    if view.loop is None:
        return None
    lines = [line for line in _lines(view, view.loop) if sum(map(math.isfinite, line[1])) >= 2]
    if not lines:
        return None
    shown = [
        tag(
            "figure",
            tag("figcaption", name),
            line_chart(
                view.trend.times, values, view.span, name=name, write=write, from_zero=from_zero,
                with_times=index == len(lines) - 1, height=100 if index == len(lines) - 1 else 82,
            ),
        )
        for index, (name, values, write, from_zero) in enumerate(lines)
    ]  # fmt: skip
    return card(
        "Over time",
        *shown,
        folded("As a table", _as_table(view, lines), name="speed-table"),
        name="speed",
    )


def _lines(view: View, loop: str) -> Iterator[Line]:
    for key, name, write in _RATES:
        yield name, view.trend.column("loops", loop, key), write, True
    for name, values in view.trend.below("loops", loop, "recorded").items():
        yield name, values, amount, False


def _as_table(view: View, lines: Sequence[Line]) -> Element | None:
    count = len(view.trend.times)
    step = max(1, math.ceil(count / _ROWS))
    rows = [{"index": index} for index in range(count - 1, -1, -step)]
    columns = [Column("seconds ago", lambda row: f"{-view.trend.times[row['index']]:.0f}")]
    columns += [Column(name, _writer(values, write)) for name, values, write, _ in lines]
    return table(columns, rows, caption="Over time")


def _writer(values: Sequence[float], write: Callable[[float], str]) -> Callable[..., str | None]:
    return lambda row: write(values[row["index"]]) if math.isfinite(values[row["index"]]) else None
