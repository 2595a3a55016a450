"""Metrics of the training process's control group: its memory and processor limits, and its throttling by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jaxobs.model.metrics import Metric
from jaxobs.plugin.control_groups import Group, find_group, memory_limit, memory_used, tightest
from jaxobs.plugin.fields import Query, Sample

MEMORY_USED = Metric(
    "jaxobs_cgroup_memory_used_bytes", "gauge",
    "Memory of the container (control group) that the training process is in, page cache included", unit="bytes",
)  # fmt: skip
MEMORY_LIMIT = Metric(
    "jaxobs_cgroup_memory_limit_bytes", "gauge",
    "Memory beyond which the container is out of memory; absent without a limit", unit="bytes",
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
    "Periods in which the container had used up its processor time",
)
THROTTLED = Metric(
    "jaxobs_cgroup_cpu_throttled_seconds_total", "counter",
    "Time that processors of the container were held back, summed over processors", unit="seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A process's control groups in the two controllers that matter here."""

    memory: Group
    cpu: Group


def find_cgroup(pid: int, proc: Path = Path("/proc")) -> Cgroup:
    """The control groups of a process. Raises what `find_group` raises."""
    return Cgroup(find_group("memory", pid, proc), find_group("cpu", pid, proc))


def _memory(cgroup: Cgroup) -> Iterator[Sample]:
    folder, limit = memory_limit(cgroup.memory)
    yield MEMORY_LIMIT, (), limit
    yield MEMORY_USED, (), memory_used(cgroup.memory, folder)


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
    yield CPU_LIMIT, (), tightest(_cpu_limits(cgroup.cpu))[1]


def _throttling(cgroup: Cgroup) -> Iterator[Sample]:
    folder, _ = tightest(_cpu_limits(cgroup.cpu))
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
