"""Whether a directory of the settings can be written to, found out without leaving anything in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jaxobs.plugin.guard import raised_by_signal_handler


def why_not_writable(directory: Path) -> str | None:
    """Why no file could be made in a directory; None where one can. One that is not there yet would be made."""
    folders = (directory, *directory.absolute().parents)
    # `Path.exists` raises where a folder above may not be looked into.
    there = next((folder for folder in folders if os.path.exists(folder)), directory)  # noqa: PTH110
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        if raised_by_signal_handler(error):  # a TimeoutError of the user's, say
            raise
        return f"{error.strerror or error}" + ("" if there == directory else f" ({there})")
