"""Parts of sections: cards, tables that leave out empty columns, and reasons in small letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from jaxobs.report.columns import Column, Row
from jaxobs.report.drawing import Element, style, tag
from jaxobs.report.sentence import code_apart
from jaxobs.vocabulary.units import ABSENT

REASONS_SHOWN: Final = 4
"""Reasons shown in a paragraph: nobody would read more; all of them are in the snapshot."""


@cache
def parts_style() -> str:
    """CSS of these parts and of charts, inside an element of class `jaxobs`."""
    return style() + (files("jaxobs.report.page") / "parts.css").read_text(encoding="utf-8")


def card(title: str, *children: Element | str | None, name: str, note: str = "") -> Element:
    """A section with a heading; `name` is its id, which a link to the page may end in."""
    heading = tag("h2", title, tag("small", f" {note}") if note else None)
    return tag("section", heading, *children, class_="card", id=name)


def with_code(text: str) -> list[Element | str]:
    """A text with its words in backquotes as elements of code."""
    return [tag("code", words) if is_code else words for words, is_code in code_apart(text)]


def quiet(*reasons: str | None) -> Element | None:
    """Why something is not shown, each reason once; None where there is none."""
    shown = list(dict.fromkeys(reason for reason in reasons if reason))[:REASONS_SHOWN]
    return tag("p", *_lines(shown), class_="quiet") if shown else None


def table(columns: Sequence[Column], rows: Sequence[Row], *, caption: str, more: str = "") -> Element | None:
    """A table; None where there are no rows. A column in which no row has anything is left out."""
    if not rows:
        return None
    cells = [[column.show(row) for row in rows] for column in columns]
    kept = [
        (column, values)
        for column, values in zip(columns, cells, strict=True)
        if any(value is not None and value != "" for value in values)
    ]
    head = tag("tr", *(tag("th", column.title, scope="col", class_=_style(column)) for column, _ in kept))
    body = [
        tag("tr", *(_cell(column, values[index], first=not at) for at, (column, values) in enumerate(kept)))
        for index in range(len(rows))
    ]
    inner = tag("table", tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", *body))
    region = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("div", region, tag("p", more, class_="quiet")) if more else region


def pairs(facts: Iterable[tuple[str, str]], **attributes: str) -> Element:
    """Titles with their values."""
    return tag(
        "dl", *(tag("div", tag("dt", title), tag("dd", value)) for title, value in facts), **attributes
    )


def folded(summary: str, *children: Element | None, name: str) -> Element | None:
    """A part that opens on demand; None where it would be empty.

    By its `name` the page's script recognises it, and keeps it open while the page follows the run.
    """
    if all(child is None for child in children):
        return None
    return tag("details", tag("summary", summary), *children, id=name)


def _cell(column: Column, value: Element | str | None, *, first: bool) -> Element:
    shown = ABSENT if value is None or value == "" else value
    if first:
        return tag("th", shown, scope="row", class_=_style(column))
    return tag("td", shown, class_=_style(column))


def _style(column: Column) -> str | None:
    return "text" if column.text else None


def _lines(texts: Iterable[str]) -> Iterable[Element | str]:
    for index, text in enumerate(texts):
        if index:
            yield tag("br")
        yield from with_code(text)
