"""What the generators share: put a page that the code writes in its place, or only compare."""  # noqa: INP001  # beside scripts

from __future__ import annotations

import sys
from pathlib import Path


def write_or_compare(file: Path, wanted: str, arguments: list[str], otherwise: str) -> int:
    """The exit status. With `--check` nothing is written, and where the file differs `otherwise` is said."""
    if arguments != ["--check"]:
        file.write_text(wanted, encoding="utf-8")
        return 0
    if file.exists() and file.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write(f"{file.name} {otherwise}: run `make docs`\n")
    return 1


def cell(text: str) -> str:
    """Text as it stands in a cell of a Markdown table."""
    return text.replace("|", "\\|")
