"""The colours of the charts, and the key to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from jaxobs.report.drawing.elements import Element, tag
from jaxobs.vocabulary.words import COMPONENTS, Component

_ON_DARK, _ON_LIGHT = "#ffffff", "#10151c"
"""Colours of a name within a coloured part."""


@cache
def style() -> str:
    """CSS for charts inside an element of class `jaxobs`, for light and dark surroundings."""
    rules = (files("jaxobs.report.drawing") / "chart.css").read_text(encoding="utf-8")
    light, dark = ([(each.word, getattr(each, ground)) for each in Component] for ground in ("light", "dark"))
    fills = [f".jaxobs .is-{word} {{ fill: var(--{word}); }}" for word in COMPONENTS]
    fills.append(".jaxobs .is-cache_resident { fill: var(--transfer); }")
    at_night = f"@media (prefers-color-scheme: dark) {{\n{_colours(dark)}\n}}"
    return "\n".join((rules, _colours(light), at_night, *fills, ""))


def _colours(colours: Iterable[tuple[str, str]]) -> str:
    """The colour of each component, and that of its name within it, as variables and rules."""
    found = list(colours)
    variables = " ".join(f"--{word}: {colour};" for word, colour in found)
    names = (
        f".jaxobs-chart .part text.on-{word} {{ fill: {_readable_on(colour)}; }}" for word, colour in found
    )
    return "\n".join((f".jaxobs {{ {variables} }}", *names))


def _readable_on(colour: str) -> str:
    """White or black, whichever contrasts more with the colour (WCAG 2.2, contrast ratio)."""
    luminance = _luminance(colour)
    white = (_luminance(_ON_DARK) + 0.05) / (luminance + 0.05)
    black = (luminance + 0.05) / (_luminance(_ON_LIGHT) + 0.05)
    return _ON_DARK if white > black else _ON_LIGHT


def _luminance(colour: str) -> float:
    """Relative luminance, 0 to 1, of a colour such as `#0072b2` (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def legend(names: Iterable[str]) -> Element:
    """The key to the colours of these components or bottlenecks."""
    return tag(
        "ul",
        *(
            tag("li", tag("svg", tag("rect", class_=f"is-{name}", width="10", height="10", rx="2"),
                          width="10", height="10", aria_hidden="true"), f" {name}")
            for name in names
        ),
        class_="legend",
    )  # fmt: skip
