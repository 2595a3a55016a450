"""Directories to write to: which the system has, and whether one can be written to, without leaving anything in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from jaxobs.plugin.protocol import Remark


def temporary_directory() -> Path | None:
    """The system's, by TMPDIR and the like; None where there is none that can be written to.

    Python remembers the first answer: the job, which may set TMPDIR later, is not to find one that was asked for here.
    """
    remembered = tempfile.tempdir
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None
    finally:
        tempfile.tempdir = remembered


def writing_remarks(directory: str | None, would: str, refused: Callable[[str], str]) -> Iterator[Remark]:
    """For a plugin's `check`: what it `would` do in a directory of the settings, or why that is `refused`."""
    if directory is not None:
        reason = why_not_writable(Path(directory))
        could = f"{would} {directory}"
        yield Remark(could) if reason is None else Remark(f"{directory}: {refused(reason)}", problem=True)


def why_not_writable(directory: Path) -> str | None:
    """Why no file could be made in a directory; None where one can. One that is not there yet would be made."""
    folders = (directory, *directory.absolute().parents)
    # `Path.exists` raises where a folder above may not be looked into.
    there = next((folder for folder in folders if os.path.exists(folder)), directory)  # noqa: PTH110
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        return f"{error.strerror or error}" + ("" if there == directory else f" ({there})")
