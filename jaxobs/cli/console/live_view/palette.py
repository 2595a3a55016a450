"""The colours of styles in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

from jaxobs.report.terminal.spans import Line

COLOURS: Final = {
    "compute": "#3d94d1", "memory": "#e09a1e", "communication": "#d78fb5", "transfer": "#1fae86",
    "latency": "#8f6ab0", "unmodelled": "#79818f", "unknown": "#4a5261", "input": "#e2d25c", "host": "#a9765a",
    "checkpoint": "#7cc6f0", "compile": "#e5762e", "cache_resident": "#1fae86",
}  # fmt: skip
"""Colours by bottleneck, as on the page's dark theme (jaxobs/report/drawing/chart.css)."""

BAD: Final = "bold #ff8a80"

_STYLES: Final = {
    **COLOURS, "strong": "bold", "quiet": "#98a2b3", "bad": BAD, "roof": "#b4bdcb", "": "",
}  # fmt: skip


def styled(lines: Iterable[Line]) -> Text:
    """The lines with their colours; brackets in names are no markup."""
    text = Text()
    for number, line in enumerate(lines):
        if number:
            text.append("\n")
        for span in line:
            text.append(span.text, style=_STYLES.get(span.style, ""))
    return text
