"""Handles files and directories that the settings name: atomic writes, reads that never wait, checks without traces."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from jaxobs.plugin.guard import raised_by_signal_handler
from jaxobs.plugin.protocol import Remark
from jaxobs.report.runs import directory_of

DRAFT_NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.draft")
"""Names of the drafts of `write_whole`, which killed writers leave behind; `name` is that of the intended file."""


APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Flags that open a file to append to, without following a link that somebody planted under its name or waiting for a
FIFO."""


class GrowingFile:
    """A file that whole lines are appended to; a full one is set aside, in place of the one that was set aside before.

    It says whose lines they are, anew where that has changed. Each write is one of whole lines: one that falls short (a
    full disk) is undone. Raises OSError.
    """

    def __init__(self, path: Path, aside: Path, max_bytes: int, mode: int = 0o644) -> None:
        self._path = path
        self._aside = aside
        self._max_bytes = max_bytes
        self._mode = mode
        self._file: int | None = None
        self._who: Mapping[str, str] | None = None

    def append(self, lines: bytes, who: Mapping[str, str], head: Callable[[], bytes]) -> None:
        """Append the lines, after `head()` where the file has none for `who`, as this process knows."""
        size = 0 if self._file is None else os.fstat(self._file).st_size
        if size and size + len(lines) > self._max_bytes:
            self.close()
            self._path.replace(self._aside)
        if self._file is None:
            self._file = os.open(self._path, APPEND, self._mode)
        lines = lines if who == self._who else head() + lines
        size, written = os.fstat(self._file).st_size, 0
        try:
            written = os.write(self._file, lines)
            if written < len(lines):
                written += os.write(self._file, lines[written:])  # raises the error for which it fell short
        finally:
            if written < len(lines):
                os.ftruncate(self._file, size)
        self._who = dict(who)

    def close(self) -> None:
        """Close it; safe twice."""
        file, self._file, self._who = self._file, None, None
        if file is not None:
            os.close(file)


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Replace whatever is at `path` by `data`: a reader sees the old file or the new one, never a part.

    The data is first written to a draft beside it, a new file with an unpredictable name. In a directory that others
    can write to, a planted link is therefore never written through; one at `path` itself is replaced. Links above the
    last component are followed. `mode` is subject to the umask. The data is on the disk before the name is. Raises
    OSError, and leaves no draft then.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, which Path cannot open
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, also for a FIFO, a device or a directory.

    The type is checked on the open file, so nothing can be put in its place in between, and opening never waits for the
    other end of a FIFO. It still waits for a network mount that does not answer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))  # noqa: TRY301  # it is closed below
        return open(descriptor, "rb")  # noqa: PTH123  # a descriptor, which Path cannot open
    except BaseException:
        os.close(descriptor)
        raise


def temporary_directory() -> Path | None:
    """The system's temporary directory, by TMPDIR and the like; None if none can be written to.

    `tempfile` caches its first answer. That cache is restored here, because the job may set TMPDIR later.
    """
    remembered = tempfile.tempdir
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None
    finally:
        tempfile.tempdir = remembered


def writing_remarks(directory: str | None, would: str, refused: Callable[[str], str]) -> Iterator[Remark]:
    """The remark of a plugin's `check` on a directory: what it `would` do there, or by `refused` why it cannot."""
    if directory is not None:
        reason = why_not_writable(Path(directory))
        could = f"{would} {directory}"
        yield Remark(could) if reason is None else Remark(f"{directory}: {refused(reason)}", problem=True)


def why_not_writable(directory: Path) -> str | None:
    """Why no file can be made in a directory, or in the nearest existing one above it; None if one can."""
    folders = (directory, *directory.absolute().parents)
    # `Path.exists` raises where a folder above may not be read.
    there = next((folder for folder in folders if os.path.exists(folder)), directory)  # noqa: PTH110
    try:
        with tempfile.TemporaryFile(dir=there):
            return None
    except OSError as error:
        if raised_by_signal_handler(error):
            raise
        return f"{error.strerror or error}" + ("" if there == directory else f" ({there})")


def why_not_kept(settings: Mapping[str, Any]) -> str | None:
    """Why nothing of a run can be kept, though it is to be, by the settings; None if it can."""
    directory = directory_of(settings)
    if directory is None:
        return "no home directory is known" if settings.get("keep_runs", True) else None
    if settings.get("run_directory") and not directory.absolute().parent.exists():
        return f"{directory}: {os.strerror(errno.ENOENT)} ({directory.absolute().parent})"
    reason = why_not_writable(directory)
    return reason and f"{directory}: {reason}"
