"""Elements of HTML and SVG, which are text from the start: `tag` escapes each text and each attribute in them.

Names shown come from the user's program and may hold markup, so nothing else joins strings into markup. `tag` takes a
third of the time of `xml.etree.ElementTree`, which matters as a page has thousands of elements.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape, unescape
from typing import Final

_VOID: Final = {"br", "link", "meta"}
"""Elements used here that have no content, and so no end tag."""

_TAG: Final = re.compile("<[^>]*>")
_START_WITH_ID: Final = re.compile(r'(<\w+(?: [\w-]+="[^"]*")*?) id="[^"]*"')


class Element:
    """Escaped markup that `tag` wrote. It is no string, so that no string can be mistaken for markup."""

    __slots__ = ("written",)

    def __init__(self, written: str) -> None:
        self.written = written

    def words(self) -> str:
        """The text in the element, without markup."""
        return unescape(_TAG.sub("", self.written))


Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """An element with its children in order; children and attributes that are None are left out.

    An attribute is written with `-` for `_` (`class_` for `class`): `tag("text", "0", text_anchor="end", x="40%")`.
    """
    written = f"<{name}"
    for key, value in attributes.items():
        if value is None:
            continue
        text = value if isinstance(value, str) else number(value)
        if "&" in text or "<" in text or ">" in text or '"' in text:
            text = escape(text, quote=False).replace('"', "&quot;")
        written += f' {_attribute(key)}="{text}"'
    written += ">"
    for child in children:
        if isinstance(child, Element):
            written += child.written
        elif child:
            written += child if name == "style" else escape(child, quote=False)
    return Element(written if name in _VOID else f"{written}</{name}>")


def stretched(height: float, *children: Child) -> Element:
    """A layer over a chart, 100 units across its whole width and `height` pixels high; lines keep their thickness."""
    return tag(
        "svg",
        *children,
        width="100%",
        height=height,
        viewBox=f"0 0 100 {number(height)}",
        preserveAspectRatio="none",
    )


def chart(
    height: int, label: str, *children: Child, kind: str = "with-levels", width: str = "100%"
) -> Element:
    """A whole chart, which can have the focus. `label` is what a screen reader reads, `kind` its further classes."""
    return tag(
        "svg", *children, class_=f"jaxobs-chart {kind}", width=width, height=height, role="img", tabindex="0",
        aria_label=label,
    )  # fmt: skip


def markup(element: Element, *, with_ids: bool = True) -> str:
    """The text of an element, as a browser parses it inside HTML. Lone surrogates and NUL are replaced.

    Without ids several copies can stand in one document.
    """
    text = element.written if with_ids else _START_WITH_ID.sub(r"\1", element.written)
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def number(value: float) -> str:
    """A number with at most two digits after the point: a fiftieth of a pixel cannot be seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


@cache
def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
