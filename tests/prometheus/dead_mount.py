"""A directory whose files do not answer, as those of a network mount whose server is gone: a FUSE that nobody serves."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_DETACH = 2  # MNT_DETACH of umount2(2)
_libc = ctypes.CDLL(None, use_errno=True)


class DeadMount:
    """Over a directory that exists; what was in it is seen again after `revive`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._device: int | None = None

    def die(self) -> None:
        """From now on whoever looks into the directory hangs. Raises OSError where this user may not mount."""
        device = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        if _libc.mount(b"dead", os.fsencode(self.directory), b"fuse", 0, options.encode()) != 0:
            os.close(device)
            raise OSError(ctypes.get_errno(), "mount")
        self._device = device

    def revive(self) -> None:
        """What hangs gets an error, and the directory is as it was."""
        if self._device is not None:
            _libc.umount2(os.fsencode(self.directory), _DETACH)
            os.close(self._device)
            self._device = None
