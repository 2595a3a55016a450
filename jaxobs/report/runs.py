"""Folders of runs: where they lie, what they are called and hold, and which of them is the newest.

Both halves of a job know its folder by the entry `run_folder` of the settings, which is decided once, at the start; who
first has something to keep makes it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

RECORD: Final = "record.json"
SUMMARY: Final = "killed.txt"
PAGE: Final = "page.html"
REPORT: Final = "out-of-memory-"
"""The record, the last summary of a job that was killed, the page, and the beginning of the names of reports."""

NO_FOLDER: Final = "this process keeps no folder of its run"

FOLDER_NAME: Final = re.compile(r"((.*-)?rank(?P<rank>\d+)-|.+-)?(?P<began>\d{8}T\d{6}Z)-\w*", re.ASCII)

NOT_IN_NAMES: Final = re.compile(r"[^\w.-]+", re.ASCII)
"""What a run's name may have and the name of its folder has not."""

MAX_NAME: Final = 100
"""Most letters of the run's name in a folder's: with rank, time and instance that is less than the 255 bytes allowed."""


def directory_of(settings: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where folders of runs are: as `run_directory` says, else in the user's state directory; None without `keep_runs`.

    The latter is `jaxobs/runs` below XDG_STATE_HOME or ~/.local/state (XDG Base Directory Specification, by which a path
    that is not absolute is ignored); None if no home directory is known.
    """
    if not settings.get("keep_runs", True):
        return None
    if given := settings.get("run_directory"):
        return Path(given)
    state = Path(environment.get("XDG_STATE_HOME", ""))
    with suppress(RuntimeError):  # as in containers that run under any user number
        state = state if state.is_absolute() else Path("~/.local/state").expanduser()
    return state / "jaxobs" / "runs" if state.is_absolute() else None


def folder_of(
    settings: Mapping[str, Any], resource: Mapping[str, str], began: float, *, is_first: bool
) -> Path | None:
    """The folder of this process, `RUN-attemptN-rankN-START-INSTANCE` as far as these are known; None if none is kept.

    `began` is in seconds since 1970. The user's state directory is for the first of several ranks alone.
    """
    directory = directory_of(settings)
    if directory is None or not (is_first or settings.get("run_directory")):
        return None
    keys = {"attempt": "jaxobs.attempt", "rank": "jax.process_index"}
    numbers = {word: resource.get(key, "") for word, key in keys.items()}
    words = [
        NOT_IN_NAMES.sub("-", resource.get("jaxobs.run", ""))[:MAX_NAME],
        *(f"{word}{number}" for word, number in numbers.items() if number.isdecimal()),
        time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(began)),
        # jobs may begin in the same second
        re.sub(r"\W+", "", resource.get("service.instance.id", ""), flags=re.ASCII)[:8],
    ]
    return directory.absolute() / "-".join(words).lstrip("-")


def is_kept(settings: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """Whether this process has a folder by now: anything of JAX has run, and in the user's directory it is rank 0.

    Where no launcher sets a rank, only JAX knows it.
    """
    process = document.get("process") or {}
    ran = bool(process.get("platform") or document.get("loops"))
    return ran and bool(settings.get("run_directory") or process.get("process_index") in {None, 0})


def make_folder(settings: Mapping[str, Any]) -> Path:
    """Make the run's folder, if it is not there. Raises OSError.

    In the user's state directory only the user may read it. A directory that was given is made without those above it:
    a mistyped path must not be created.
    """
    folder, is_users = Path(settings["run_folder"]), not settings.get("run_directory")
    for directory in (folder.parent, folder):
        directory.mkdir(0o700 if is_users else 0o777, parents=is_users, exist_ok=True)
    return folder


def kept(directory: Path) -> list[Path]:
    """The folders in a directory that hold a record, the run that began last first.

    When one began is in its name; of another name, when it was written. Raises OSError where it cannot be read.
    """
    found = []
    for path in directory.iterdir():
        with suppress(OSError, OverflowError, ValueError):  # it holds none, is gone, or its time is no year
            written = (path / RECORD).lstat().st_mtime
            match = FOLDER_NAME.fullmatch(path.name)
            began = match["began"] if match else time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(written))
            found.append((began, written, path))
    return [path for *_, path in sorted(found, reverse=True)]


def traces(folder: Path) -> list[Path]:
    """The profiler traces that a run kept, the newest last: they lie in folders named by their time."""
    return sorted(folder.glob("plugins/profile/*/*.xplane.pb"))
