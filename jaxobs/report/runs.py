"""Where records of runs are kept, and which of them a word such as `last~2` means."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

LAST: Final = re.compile(r"last(?:~(\d{1,6}))?", re.ASCII)
"""The word for a record by how many runs began after it."""

RECORD_NAME: Final = re.compile(r".+-(?P<began>\d{8}T\d{6}Z)(-\w*)?\.json", re.ASCII)
_OF_ANOTHER_RANK: Final = re.compile(r"-rank[1-9]\d*-\d{8}T\d{6}Z(-\w*)?\.json$", re.ASCII)
"""Names that an exporter gives to records, and those of ranks that are not the first."""


def directory_of(settings: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where records are kept: as `run_directory` says, else with `keep_runs` in the user's state directory.

    That is `jaxobs/runs` below XDG_STATE_HOME or ~/.local/state (XDG Base Directory Specification, by which a path that
    is not absolute is ignored). None if no record is kept, or no home directory is known.
    """
    if given := settings.get("run_directory"):
        return Path(given)
    state = Path(environment.get("XDG_STATE_HOME", ""))
    with suppress(RuntimeError):  # as in containers that run under any user number
        state = state if state.is_absolute() else Path("~/.local/state").expanduser()
    return state / "jaxobs" / "runs" if settings.get("keep_runs") and state.is_absolute() else None


def kept(directory: Path) -> list[Path]:
    """The records in a directory, of each run that of its first rank, the one that began last first.

    When one began is in its name; of another name, when it was written. Raises OSError where it cannot be read.
    """
    found = []
    for path in directory.iterdir():
        if path.suffix == ".json" and not _OF_ANOTHER_RANK.search(path.name):
            with suppress(OSError):  # another process has deleted it
                written = path.lstat().st_mtime
                match = RECORD_NAME.fullmatch(path.name)
                began = match["began"] if match else time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(written))
                found.append((began, written, path))
    return [path for *_, path in sorted(found, reverse=True)]


def named(word: str, directory: Path) -> Path | None:
    """The record that `last`, `last~2` (two before it) or the beginning of a file's name means; None if there is none."""
    records: list[Path] = []
    with suppress(OSError):
        records = kept(directory)
    if match := LAST.fullmatch(word):
        return next(iter(records[int(match[1] or 0) :]), None)
    return next((path for path in records if word and path.name.startswith(word)), None)
