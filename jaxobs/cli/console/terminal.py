"""What the terminal is like that a command writes to."""

from __future__ import annotations

import os
from typing import IO

from jaxobs.report.text_table import PLAIN_WIDTH


def terminal_width(stream: IO[str] | None) -> int:
    """Columns of the terminal behind a stream, at least 60; PLAIN_WIDTH where it is none, or closed."""
    try:
        return PLAIN_WIDTH if stream is None else max(60, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return PLAIN_WIDTH


def is_styled(stream: IO[str] | None) -> bool:
    """Whether to write bold and colour: to a terminal that knows them, unless `NO_COLOR` is set (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
