"""Elements of HTML and SVG, made as a tree and written by the standard library, which escapes every text and attribute.

Names in them are a program's own, and may hold markup: nothing here joins strings into markup by hand.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

__all__ = ["Element", "markup", "number", "stretched", "tag"]

Child = Element | str | None


def tag(name: str, /, *children: Child, **attributes: str | float | None) -> Element:
    """An element with its children in order; those that are None are left out, and so are attributes that are.

    An attribute is written with `-` for `_` (`class_` for `class`): `tag("text", "0", text_anchor="end", x="40%")`.
    """
    given = {
        key.rstrip("_").replace("_", "-"): value if isinstance(value, str) else number(value)
        for key, value in attributes.items()
        if value is not None
    }
    element = Element(name, given)
    for child in children:
        if isinstance(child, str):
            _append_text(element, child)
        elif child is not None:
            element.append(child)
    return element


def stretched(height: float, *children: Child) -> Element:
    """A layer over the whole width of a chart and `height` pixels of it, 100 units wide: lines keep their width."""
    return tag(
        "svg",
        *children,
        width="100%",
        height=height,
        viewBox=f"0 0 100 {number(height)}",
        preserveAspectRatio="none",
    )


def markup(element: Element) -> str:
    """The text of an element, as a browser parses it inside HTML. Lone surrogates and NUL are replaced."""
    text = tostring(element, encoding="unicode", method="html")
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def number(value: float) -> str:
    """Two digits after the point: a fiftieth of a pixel is not seen."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:.0f}"


def _append_text(element: Element, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
