"""How wide the terminal is that a command writes to."""

from __future__ import annotations

import os
from typing import IO

from jaxobs.model.text_table import PLAIN_WIDTH


def terminal_width(stream: IO[str]) -> int:
    """Columns of the terminal behind a stream, at least 60; PLAIN_WIDTH where it is none."""
    try:
        return max(60, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return PLAIN_WIDTH
