"""The width of a command's terminal, and whether it shows styles.

A job of `jaxobs run` imports this for its summary, so it imports no module that a script could have by that name.
"""

from __future__ import annotations

import os
from typing import IO, TypedDict

from jaxobs.report.text_table import PLAIN_WIDTH


class Look(TypedDict):
    """What a text is written for: so many columns, and whether with styles."""

    width: int
    bold: bool


def look_of(stream: IO[str] | None) -> Look:
    """The width of a stream's terminal, and whether it shows styles."""
    return {"width": terminal_width(stream), "bold": is_styled(stream)}


def terminal_width(stream: IO[str] | None) -> int:
    """The columns of a stream's terminal, at least 60; PLAIN_WIDTH if the stream is no terminal, or closed."""
    try:
        return PLAIN_WIDTH if stream is None else max(60, os.get_terminal_size(stream.fileno()).columns)
    except (AttributeError, OSError, ValueError):  # an object of the script's may have `write` alone
        return PLAIN_WIDTH


def is_styled(stream: IO[str] | None) -> bool:
    """Whether to write bold and colour: to a capable terminal, unless `NO_COLOR` is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):  # as above, or closed
        return False
