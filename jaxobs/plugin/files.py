"""Files and directories of the settings: written whole or not at all, read without waiting, tried without a trace."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from jaxobs.plugin.protocol import Remark

DRAFT_NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.draft")
"""What a draft of `write_whole` is called: `name` is the file that it would have become. A killed writer leaves one."""


def write_whole(path: Path, data: bytes, mode: int = 0o644, *, replace: bool = True) -> None:
    """Put `data` in the place of whatever is at `path`: a reader sees the old file or the new one, never a part.

    The draft beside it is a new file under a name that nobody can foresee, so in a directory that others can write to,
    a planted link is never written through; one at `path` itself is replaced. Links above the last component are
    followed. `mode` is subject to the umask. The data are on the disk before the name is. Raises OSError, and leaves no
    draft then; FileExistsError where something is at `path` and `replace` is false.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor, which Path cannot open
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)
            draft.unlink()
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to be read. Raises OSError, for a FIFO, a device or a directory too.

    What was opened is what is looked at, so nothing can be put in its place in between; and opening never waits for the
    other end of a FIFO. A file on a network mount that does not answer keeps this waiting all the same.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_regular(descriptor, path)
        return open(descriptor, "rb")  # noqa: PTH123  # a descriptor, which Path cannot open
    except BaseException:
        os.close(descriptor)
        raise


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


def _require_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
