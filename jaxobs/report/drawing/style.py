"""The colours of the charts, and the key to them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from jaxobs.report.drawing.elements import Element, tag


@cache
def style() -> str:
    """CSS for charts inside an element of class `jaxobs`, for light and dark surroundings."""
    return (files("jaxobs.report.drawing") / "chart.css").read_text(encoding="utf-8")


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
