"""Elements of HTML and SVG, which are text from the start, the colours of charts, and the parts of pages.

`tag` escapes each text and each attribute: names shown come from the user's program and may hold markup, so nothing else
joins strings into markup. It takes a third of the time of `xml.etree.ElementTree`, which matters as a page has thousands
of elements. Colours are classes, which `style()` defines for light and dark surroundings.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from types import MappingProxyType
from typing import Final, NamedTuple

from jaxobs.report.sentence import pieces
from jaxobs.report.tables import Column, Row, known_columns
from jaxobs.vocabulary.units import ABSENT
from jaxobs.vocabulary.words import COMPONENTS, Component

_RAW: Final = {"style", "script"}
"""Elements whose text is read as it stands; what is put there is jaxobs's own."""

_VOID: Final = {"br", "link", "meta"}
"""Elements used here that have no content, and so no end tag."""


class Element(NamedTuple):
    """Escaped markup that `tag` wrote. It is no string, so that no string can be mistaken for markup."""

    written: str


Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """An element with its children in order; children and attributes that are None are left out.

    An attribute is written with `-` for `_` (`class_` for `class`): `tag("text", "0", text_anchor="end", x="40%")`.
    """
    written = f"<{name}"
    for key, value in attributes.items():
        if value is None:
            continue
        text = escape(value if isinstance(value, str) else number(value))
        written += f' {_attribute(key)}="{text}"'
    written += ">"
    for child in children:
        if isinstance(child, Element):
            written += child.written
        elif child:
            written += child if name in _RAW else escape(child, quote=False)
    return Element(written if name in _VOID else f"{written}</{name}>")


def stretched(height: float, *children: Child) -> Element:
    """A layer over a chart, 100 units across its whole width and `height` pixels high; lines keep their thickness."""
    box = f"0 0 100 {number(height)}"
    return tag("svg", *children, width="100%", height=height, viewBox=box, preserveAspectRatio="none")


def chart(height: int, label: str, *children: Child, kind: str = "with-levels") -> Element:
    """A whole chart, which can have the focus. `label` is what a screen reader reads, `kind` its further classes."""
    return tag(
        "svg", *children, class_=f"jaxobs-chart {kind}", width="100%", height=height, role="img", tabindex="0",
        aria_label=label,
    )  # fmt: skip


def markup(element: Element) -> str:
    """The text of an element, as a browser parses it inside HTML. Lone surrogates and NUL are replaced."""
    return element.written.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def number(value: float) -> str:
    """A number with at most two digits after the point: a fiftieth of a pixel cannot be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


_ON_DARK, _ON_LIGHT = "#ffffff", "#10151c"
"""Colours of a name within a coloured part."""


@cache
def style() -> str:
    """CSS of parts and charts inside an element of class `jaxobs`, for light and dark surroundings."""
    rules = (files("jaxobs.report") / "style.css").read_text(encoding="utf-8")
    fills = [f".jaxobs .is-{word} {{ fill: var(--{word}); }}" for word in COMPONENTS]
    return "\n".join((rules, _colours(), *fills, ""))


@cache
def _page_style() -> str:
    return style() + (files("jaxobs.report") / "page.css").read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    """The hash of a text by which a Content-Security-Policy allows it in a page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def policy_of(script: str = "") -> str:
    """The Content-Security-Policy of a whole page.

    It allows the page's own style and script by their hashes, its icon, and a script to fetch the page anew. So a name
    that a program recorded cannot run as a script, even if escaping it was forgotten somewhere.
    """
    allowed = f"default-src 'none'; style-src {_hash_of(_page_style())}; img-src data:; base-uri 'none'"
    allowed += "; form-action 'none'"
    own = f"script-src {_hash_of(script)}; connect-src 'self'; frame-ancestors 'none'"
    return f"{allowed}; {own}" if script else allowed


_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M1 14 8 5h7' fill='none' stroke='%230072b2' stroke-width='2.5'/%3E"
    "%3Ccircle cx='9' cy='11' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)


def whole_page(title: str, *children: Element, script: str = "") -> str:
    """An HTML document that loads nothing from elsewhere.

    With a `script` it is served, with `policy_of` it in a header; else it is a file, which has its policy in it.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        None if script else tag("meta", http_equiv="Content-Security-Policy", content=policy_of()),
        tag("title", title),
        tag("link", rel="icon", href=_ICON),
        tag("style", _page_style()),
    )
    body = tag("body", *children, tag("script", script) if script else None, class_="jaxobs")
    return f"<!DOCTYPE html>\n{markup(tag('html', head, body, lang='en'))}\n"


def _colours() -> str:
    """The colour of each component on light and dark ground, and that of its name in it, as variables and rules."""
    variables = " ".join(f"--{each.word}: light-dark({each.light}, {each.dark});" for each in Component)
    rules = [f".jaxobs {{ {variables} }}"]
    for each in Component:
        name = f"light-dark({_readable_on(each.light)}, {_readable_on(each.dark)})"
        rules.append(f".jaxobs-chart .part text.on-{each.word} {{ fill: {name}; }}")
    return "\n".join(rules)


def _readable_on(colour: str) -> str:
    """White or black, whichever contrasts more: as much at a relative luminance of 0.2 (WCAG 2.2, contrast ratio)."""
    parts = zip((0.2126, 0.7152, 0.0722), bytes.fromhex(colour[1:]), strict=True)
    return _ON_DARK if sum(weight * (part / 255) ** 2.2 for weight, part in parts) < 0.2 else _ON_LIGHT


def legend(names: Iterable[str], words: Mapping[str, str] = MappingProxyType({})) -> Element:
    """The key to the colours of these components or bottlenecks, which `words` may call otherwise."""
    items = []
    for name in names:
        square = tag("rect", class_=f"is-{name}", width="10", height="10", rx="2")
        word = f" {words.get(name, name)}"
        items.append(tag("li", tag("svg", square, width="10", height="10", aria_hidden="true"), word))
    return tag("ul", *items, class_="legend")


REASONS_SHOWN: Final = 4
"""Reasons shown in a paragraph: nobody would read more; all of them are in the snapshot."""


def card(title: str, *children: Element | str | None, name: str, note: str = "") -> Element:
    """A section with a heading; `name` is its id, which a link to the page may end in."""
    heading = tag("h2", title, tag("small", f" {note}") if note else None)
    return tag("section", heading, *children, class_="card", id=name)


_MARKS: Final = {"code": "code", "strong": "b"}


def with_code(text: str) -> list[Element | str]:
    """A text with its code and its strong words as elements, and no end of a line before a sign of per cent."""
    marked = pieces(text.replace(" %", "\u00a0%"))
    return [tag(_MARKS[mark], words) if mark else words for words, mark in marked]


def quiet(*reasons: str | None) -> Element | None:
    """Why something is not shown, each reason once; None if there is none."""
    shown = list(dict.fromkeys(reason for reason in reasons if reason))[:REASONS_SHOWN]
    lines = [child for reason in shown for child in (tag("br"), *with_code(reason))]
    return tag("p", *lines[1:], class_="quiet") if shown else None


def table(
    columns: Sequence[Column], rows: Sequence[Row], *, caption: str, most: int | None = None
) -> Element | None:
    """A table of at most so many rows; None if there are none. A column in which no row has anything is left out."""
    if not rows:
        return None
    shown = rows[:most]
    left = len(rows) - len(shown)
    kept = known_columns(columns, shown)
    head = tag("tr", *(tag("th", column.title, scope="col", class_=_ALIGNED[column.text]) for column in kept))
    body = [tag("tr", *(_cell(column, row, first=not at) for at, column in enumerate(kept))) for row in shown]
    inner = tag("table", tag("caption", caption, class_="unseen"), tag("thead", head), tag("tbody", *body))
    region = tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return tag("div", region, quiet(f"{left} more not listed.")) if left else region


def pairs(facts: Iterable[tuple[str, str]], **attributes: str) -> Element:
    """Titles with their values."""
    entries = (tag("div", tag("dt", title), tag("dd", value)) for title, value in facts)
    return tag("dl", *entries, **attributes)


def folded(summary: str, *children: Element | None, name: str) -> Element | None:
    """A part that opens on demand; None where it would be empty.

    By its `name` the page's script recognises it, and keeps it open while the page follows the run.
    """
    if all(child is None for child in children):
        return None
    return tag("details", tag("summary", summary), *children, id=name)


_ALIGNED: Final = {True: "text", False: None}
"""Classes of cells: text is aligned left."""


def _cell(column: Column, row: Row, *, first: bool) -> Element:
    name, *particulars = (column.show(row) or ABSENT).split("\n")
    shown = [*with_code(name), *(tag("div", tag("small", *with_code(line))) for line in particulars)]
    scope = "row" if first else None
    whole = column.whole(row) if column.whole else None
    return tag("th" if first else "td", *shown, scope=scope, class_=_ALIGNED[column.text], title=whole)
