"""One column of a table: its heading, the cell of a row, and the value behind the cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jaxobs.report.drawing import Element
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.units import ABSENT

Row = Mapping[str, Any]
Cell = Element | str | None
Value = float | str | None


class Column(NamedTuple):
    """A heading, what a row shows below it (None: not known), and whether that is text, which is aligned left."""

    title: str
    show: Callable[[Row], Cell]
    text: bool = False
    value: Callable[[Row], Value] | None = None
    """The value by which rows are sorted; None: they are sorted by the words that are shown."""


def figure(title: str, name: str, write: Callable[[float], str], part: str = "") -> Column:
    """A column of the number `row[name]`, or of `row[part][name]`, as `write` formats it."""

    def value(row: Row) -> float | None:
        values = row.get(part) or {} if part else row
        found: float | None = values.get(name)
        return found

    return computed(title, value, write)


def computed(title: str, value: Callable[[Row], float | None], write: Callable[[float], str]) -> Column:
    """A column of a number that is computed from the row, as `write` formats it."""
    return Column(title, lambda row: None if (found := value(row)) is None else write(found), value=value)


def text(title: str, name: str) -> Column:
    """A column of the words `row[name]`."""
    return Column(title, lambda row: str(row[name]) if row.get(name) else None, text=True)


def last_name(path: object) -> str | None:
    """The path without its folder: `train.py:12` for `/home/ada/train.py:12`."""
    return str(path).rpartition("/")[2] if path else None


def words(column: Column, row: Row) -> str:
    """What a row shows in a column, without markup; empty where it is not known."""
    cell = column.show(row)
    return cell.words() if isinstance(cell, Element) else cell or ""


def plain_table(
    columns: Sequence[Column], rows: Sequence[Row], *, title: str = "", absent: str = ABSENT
) -> TextTable:
    """The rows as a table of plain text, with `absent` for what is not known."""
    left = [column.title for column in columns if column.text]
    table = TextTable([column.title for column in columns], title=title, left=left)
    for row in rows:
        table.add(*(words(column, row) or absent for column in columns))
    return table


def sorted_rows(rows: Sequence[Row], column: Column, *, descending: bool) -> list[Row]:
    """The rows sorted by a column; rows whose value is not known come last in either direction. Stable."""
    known = [(value, row) for row in rows if (value := _value(row, column)) is not None]
    rest = [row for row in rows if _value(row, column) is None]
    known.sort(key=lambda pair: _order(pair[0]), reverse=descending)
    return [row for _, row in known] + rest


def _value(row: Row, column: Column) -> Value:
    if column.value is None:
        return words(column, row).casefold() or None
    value = column.value(row)
    return None if isinstance(value, float) and math.isnan(value) else value


def _order(value: float | str) -> tuple[float, str]:
    return (0.0, value) if isinstance(value, str) else (float(value), "")
