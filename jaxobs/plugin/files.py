"""Files of the settings: written whole or not at all, and read without waiting for what is no file."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

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


def _require_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
