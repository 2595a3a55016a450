"""The control group that the training process runs in: its memory and processor limits, and being held back by them.

A limit holds for a group and all below it, so the tightest one on the way to the root counts; usage and throttling are
read where that limit is set. File names and units: the kernel's Documentation/admin-guide/cgroup-v2.rst for version 2,
and cgroup-v1/memory.rst and scheduler/sched-bwc.rst for version 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import Query, Sample

MEMORY_USED = Metric(
    "jaxobs_cgroup_memory_used_bytes", "gauge",
    "Memory of the container (control group) that the training process is in, page cache included", unit="bytes",
)  # fmt: skip
MEMORY_LIMIT = Metric(
    "jaxobs_cgroup_memory_limit_bytes", "gauge", "Beyond this the container is out of memory; absent without a limit",
    unit="bytes",
)  # fmt: skip
CPU_LIMIT = Metric(
    "jaxobs_cgroup_cpu_limit_cpus", "gauge", "Processors' worth of time the container may use; absent without a limit",
    unit="cpus",
)  # fmt: skip
PERIODS = Metric(
    "jaxobs_cgroup_cpu_periods_total", "counter", "Periods of the processor limit in which the container ran"
)
THROTTLED_PERIODS = Metric(
    "jaxobs_cgroup_cpu_throttled_periods_total",
    "counter",
    "Periods in which it had used up its processor time",
)
THROTTLED = Metric(
    "jaxobs_cgroup_cpu_throttled_seconds_total", "counter",
    "Time that processors of the container were held back, summed over processors", unit="seconds",
)  # fmt: skip


V1_UNLIMITED_BYTES = 2**62
"""Version 1 writes the largest number of whole pages below 2^63 for no limit."""


@dataclass(frozen=True, slots=True)
class Group:
    """A control group of one controller: its folder and those above it, and the version of its files."""

    version: int
    folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where a process stands in the two controllers that matter here."""

    memory: Group
    cpu: Group


def find_cgroup(pid: int, proc: Path = Path("/proc")) -> Cgroup:
    """Raises OSError or LookupError where the system has no control groups, or they are not mounted here."""
    memberships = (proc / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
    mounts = (proc / "self" / "mountinfo").read_text(encoding="utf-8").splitlines()
    return Cgroup(_group("memory", memberships, mounts), _group("cpu", memberships, mounts))


def _group(controller: str, memberships: list[str], mounts: list[str]) -> Group:
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
    """From the group up to the root of the mount. A group outside of what is mounted is seen as that root."""
    prefix = root.rstrip("/")
    inside = path[len(prefix) :].strip("/") if path == prefix or path.startswith(prefix + "/") else ""
    parts = [] if ".." in inside.split("/") else [part for part in inside.split("/") if part]
    return tuple(mounted.joinpath(*parts[:count]) for count in range(len(parts), -1, -1))


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _tightest(limits: list[tuple[Path, float | None]]) -> tuple[Path, float | None]:
    """The smallest limit and its folder; without any, the first folder."""
    if not limits:
        raise FileNotFoundError("this control group has no such limit")
    limited = [(limit, -position) for position, (_, limit) in enumerate(limits) if limit is not None]
    if not limited:
        return limits[0]
    limit, position = min(limited)
    return limits[-position][0], limit


def _memory(cgroup: Cgroup) -> Iterator[Sample]:
    group = cgroup.memory
    limit_file, used_file = (
        ("memory.max", "memory.current")
        if group.version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    limits: list[tuple[Path, float | None]] = []
    for folder in group.folders:
        if (folder / limit_file).exists():
            text = (folder / limit_file).read_text(encoding="ascii").strip()
            limits.append((folder, None if text == "max" or int(text) >= V1_UNLIMITED_BYTES else int(text)))
    folder, limit = _tightest(limits)
    yield MEMORY_LIMIT, (), limit
    yield MEMORY_USED, (), int((folder / used_file).read_text(encoding="ascii"))


def _cpu_limits(group: Group) -> list[tuple[Path, float | None]]:
    limits: list[tuple[Path, float | None]] = []
    for folder in group.folders:
        if group.version == 2 and (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        elif group.version == 1 and (folder / "cpu.cfs_quota_us").exists():
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        else:
            continue
        limits.append((folder, None if quota in {"max", "-1"} else int(quota) / int(period)))
    return limits


def _cpu_limit(cgroup: Cgroup) -> Iterator[Sample]:
    yield CPU_LIMIT, (), _tightest(_cpu_limits(cgroup.cpu))[1]


def _throttling(cgroup: Cgroup) -> Iterator[Sample]:
    folder, _ = _tightest(_cpu_limits(cgroup.cpu))
    pairs = (line.split() for line in (folder / "cpu.stat").read_text(encoding="ascii").splitlines())
    stat = {name: int(value) for name, value in pairs}
    yield PERIODS, (), stat["nr_periods"]
    yield THROTTLED_PERIODS, (), stat["nr_throttled"]
    yield (
        THROTTLED,
        (),
        stat["throttled_usec"] / 1e6 if cgroup.cpu.version == 2 else stat["throttled_time"] / 1e9,
    )


QUERIES: tuple[Query[Cgroup], ...] = (
    Query((MEMORY_USED, MEMORY_LIMIT), _memory),
    Query((CPU_LIMIT,), _cpu_limit),
    Query((PERIODS, THROTTLED_PERIODS, THROTTLED), _throttling),
)
