"""Finds the Linux control groups of a process, and the limits of memory and processor time that apply.

A limit applies to a group and all below it, so the tightest one on the way to the root counts; usage and throttling are
read where that limit is set. File names and units: the kernel's Documentation/admin-guide/cgroup-v2.rst for version 2,
and cgroup-v1/memory.rst and scheduler/sched-bwc.rst for version 1.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

V1_UNLIMITED_BYTES = 2**62
"""Limits from here on mean none: version 1 writes the largest number of whole pages below 2^63."""


@dataclass(frozen=True, slots=True)
class Group:
    """A control group of one controller: its folder and those above it, and the version of its files."""

    version: int
    folders: tuple[Path, ...]


def find_group(controller: str, pid: int | str = "self", proc: Path = Path("/proc")) -> Group:
    """The control group of a process for the controller `memory` or `cpu`.

    Raises OSError, LookupError or ValueError where the system has no control groups, or they are not mounted here.
    """
    memberships = (proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
    mounts = (proc / "self" / "mountinfo").read_text(encoding="utf-8").splitlines()
    unified = None
    for line in memberships:  # hierarchy:controllers:path
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return Group(1, _folders(path, *_mount(mounts, "cgroup", controller)))
        if not controllers:
            unified = path
    if unified is None:
        raise LookupError(f"the process is in no control group for {controller}")
    return Group(2, _folders(unified, *_mount(mounts, "cgroup2", None)))


def memory_limit(group: Group) -> tuple[Path, float | None]:
    """The folder whose limit applies, and the limit in bytes or None. Raises OSError or ValueError."""
    name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
    limits: list[tuple[Path, float | None]] = []
    for folder in group.folders:
        if words := _words(folder, name):
            limit = math.inf if words == ["max"] else int(words[0])
            limits.append((folder, None if limit >= V1_UNLIMITED_BYTES else limit))
    return _tightest(limits)


def memory_used(group: Group, folder: Path) -> int:
    """The bytes used in a folder of the group and all below it, with page cache. Raises OSError or ValueError."""
    name = "memory.current" if group.version == 2 else "memory.usage_in_bytes"
    return int((folder / name).read_text(encoding="ascii"))


def cpu_limit(group: Group) -> tuple[Path, float | None]:
    """The folder whose limit applies, and the limit in processors' worth of time or None.

    Raises OSError or ValueError.
    """
    names = ("cpu.max",) if group.version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    limits: list[tuple[Path, float | None]] = []
    for folder in group.folders:
        if words := _words(folder, *names):
            quota, period = words
            limits.append((folder, None if quota in {"max", "-1"} else int(quota) / int(period)))
    return _tightest(limits)


def _words(folder: Path, *names: str) -> list[str]:
    """The words in these files of a folder; none where the first file is not there."""
    found = names if (folder / names[0]).exists() else ()
    return [word for name in found for word in (folder / name).read_text(encoding="ascii").split()]


def _tightest(limits: list[tuple[Path, float | None]]) -> tuple[Path, float | None]:
    """The smallest limit and its folder, or the first folder and None. Raises FileNotFoundError for an empty list."""
    if not limits:
        raise FileNotFoundError("this control group has no such limit")
    limited = [each for each in reversed(limits) if each[1] is not None]  # of equal ones the outermost counts
    return min(limited, key=itemgetter(1), default=limits[0])


def _mount(mounts: list[str], kind: str, controller: str | None) -> tuple[str, Path]:
    """The group that is the root of a mount, and the folder where it is mounted (proc(5), mountinfo)."""
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        kind_here, _, options = rest.split(" ", 2)
        if kind_here == kind and (controller is None or controller in options.split(",")):
            root, folder = (_unescaped(field) for field in fields.split(" ")[3:5])
            return root, Path(folder)
    raise LookupError(f"no {kind} file system is mounted")


def _folders(path: str, root: str, mounted: Path) -> tuple[Path, ...]:
    """The folders from the group up to the mount's root. A group outside the mount is taken for that root."""
    prefix = root.rstrip("/")
    inside = path[len(prefix) :].strip("/") if path == prefix or path.startswith(prefix + "/") else ""
    parts = [] if ".." in inside.split("/") else [part for part in inside.split("/") if part]
    return tuple(mounted.joinpath(*parts[:count]) for count in range(len(parts), -1, -1))


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
