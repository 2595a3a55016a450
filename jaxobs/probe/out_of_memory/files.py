"""Writes each report to a private directory of its own, within a deadline even where the disk hangs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from jaxobs.model.clock import monotonic
from jaxobs.plugin.files import temporary_directory
from jaxobs.plugin.threads import Thread

NAMES_TRIED = 10
"""Most names tried for a directory: reports of one second need different ones, and others may have taken them all."""


class DiskTooSlowError(OSError):
    """The deadline passed while files were being written; those that were complete by then exist."""


def write_report(root: str | None, name: str, files: Mapping[str, bytes], deadline: float) -> Path:
    """Write `files` to a new directory in `root` (default: the system's temporary directory) by `deadline`.

    `deadline` is of `monotonic()`. Only the user may read the directory. Raises OSError where it cannot be written,
    DiskTooSlowError where the deadline came first.
    """
    outcome: list[Path | OSError] = []

    def write() -> None:
        try:
            place = Path(root) if root else temporary_directory()
            if place is None:
                raise FileNotFoundError(
                    "the system has no temporary directory: set JAXOBS_OUT_OF_MEMORY_DIRECTORY"
                )
            directory = _new_directory(place, name)
            for file, content in files.items():
                (directory / file).write_bytes(content)
            outcome.append(directory)
        except OSError as error:
            outcome.append(error)

    try:
        # A disk that hangs must not hold up the error.
        Thread("out-of-memory", write, awaited=False).join(deadline - monotonic())
    except RuntimeError:  # no memory for a thread's stack either, or the interpreter is ending
        write()
    if not outcome:
        raise DiskTooSlowError("the disk did not answer in time")
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


def _new_directory(root: Path, name: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:100]
    root.mkdir(parents=True, exist_ok=True)
    for number in range(1, NAMES_TRIED + 1):
        directory = root / (f"{plain}-{stamp}" + (f"-{number}" if number > 1 else ""))
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return directory
    raise FileExistsError(f"{NAMES_TRIED} directories {plain}-{stamp}… are already in {root}")
