"""The colours of styles in a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.text import Text

from jaxobs.report.terminal.spans import Line
from jaxobs.vocabulary.words import Component

COLOURS: Final = {each.word: each.dark for each in Component}
COLOURS["cache_resident"] = COLOURS["transfer"]
"""Colours by bottleneck, as on the page's dark theme."""

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
