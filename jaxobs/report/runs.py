"""Where records of runs are kept, and which of them a word such as `last~2` means."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

MAX_RUNS: Final = 100
MAX_BYTES: Final = 200 * 2**20
"""Most records in the user's state directory, and most bytes of all of them: a record has at most 1 MB."""

_LAST: Final = re.compile(r"last(?:~(\d{1,6}))?")

_OF_ANOTHER_RANK: Final = re.compile(r"-rank[1-9]\d*-[^-]+-[^-]*\.json$")
"""The end of a name that an exporter gives to the record of any rank but the first."""


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
    """The records in a directory, of each run that of its first rank, the one written last first."""
    found: list[tuple[int, Path]] = []
    paths: list[Path] = []
    with suppress(OSError):  # there is none, or it cannot be read
        paths += directory.iterdir()
    for path in paths:
        if path.suffix == ".json" and not _OF_ANOTHER_RANK.search(path.name):
            with suppress(OSError):  # another process has deleted it
                found.append((path.lstat().st_mtime_ns, path))
    return [path for _, path in sorted(found, reverse=True)]


def named(word: str, directory: Path) -> Path | None:
    """The record that `last`, `last~2` (two before it) or the beginning of a file's name means; None if there is none."""
    records = kept(directory)
    if match := _LAST.fullmatch(word):
        return next(iter(records[int(match[1] or 0) :]), None)
    return next((path for path in records if word and path.name.startswith(word)), None)


def make_room(directory: Path) -> None:
    """Delete the oldest records beyond MAX_RUNS and MAX_BYTES."""
    size = 0
    for number, path in enumerate(kept(directory), 1):
        with suppress(OSError):  # another process has deleted it
            size += path.stat().st_size
            if number > MAX_RUNS or size > MAX_BYTES:
                path.unlink()
