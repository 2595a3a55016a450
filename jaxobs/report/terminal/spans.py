"""Words with a style for a terminal; which colour a style has is decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from jaxobs.report.sentence import code_apart


class Span(NamedTuple):
    """Some words and their style: a component of wall time (its colour), `strong`, `quiet`, `bad`, or none."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def line_of(cells: Iterable[tuple[str, str]]) -> Line:
    """A line of letters with styles: neighbours of one style share a span."""
    spans: list[Span] = []
    for letter, style in cells:
        if spans and spans[-1].style == style:
            spans[-1] = Span(spans[-1].text + letter, style)
        else:
            spans.append(Span(letter, style))
    return tuple(spans)


def with_code(sentence: str, style: str = "") -> Line:
    """A sentence as a line; words in backquotes, which are code, become strong."""
    return tuple(
        Span(words, "strong" if is_code else style) for words, is_code in code_apart(sentence) if words
    )
