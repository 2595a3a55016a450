"""Limits and throttling of the container, from the files of both versions of control groups."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jaxobs_plugins.collectors.host import HostCollector

PID = os.getpid()
V1_NO_LIMIT = 9223372036854771712


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def system(root: Path, membership: str, mounts: str) -> Path:
    write(root / "proc" / str(PID), cgroup=membership)
    write(root / "proc" / "self", mountinfo=mounts)
    return root / "proc"


def unified(root: Path, path: str, mounted: str = "/") -> Path:
    mount = f"31 24 0:27 {mounted} {root}/sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate"
    return system(root, f"0::{path}", f"22 1 8:1 / / rw - ext4 /dev/sda rw\n{mount}")


def told(collector: HostCollector) -> dict[str, float]:
    return {
        value.metric.removeprefix("jaxobs_cgroup_"): value.value
        for value in collector.collect()
        if value.metric.startswith("jaxobs_cgroup_")
    }


def started(proc: Path) -> HostCollector:
    collector = HostCollector(proc)
    agent: Any = SimpleNamespace(resource={"process.pid": str(PID)})
    collector.start(agent)
    return collector


def test_version_2_in_a_container(tmp_path: Path) -> None:
    proc, here = unified(tmp_path, "/"), tmp_path / "sys/fs/cgroup"
    stat = "usage_usec 9\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}"
    write(
        here,
        memory__max=2**33,
        memory__current=2**31,
        cpu__max="250000 100000",
        cpu__stat=stat.format(10, 3, 500),
    )
    collector = started(proc)
    first = told(collector)
    assert first == {
        "memory_used_bytes": 2**31, "memory_limit_bytes": 2**33, "cpu_limit_cpus": 2.5,
        "cpu_periods_total": 0.0, "cpu_throttled_periods_total": 0.0, "cpu_throttled_seconds_total": 0.0,
    }  # fmt: skip
    write(here, cpu__stat=stat.format(30, 8, 1_500_500))
    second = told(collector)
    assert second["cpu_periods_total"] == 20
    assert second["cpu_throttled_periods_total"] == 5
    assert second["cpu_throttled_seconds_total"] == pytest.approx(1.5)


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    proc, top = unified(tmp_path, "/slice/job/step"), tmp_path / "sys/fs/cgroup"
    stat = "nr_periods {0}\nnr_throttled 0\nthrottled_usec 0"
    write(top, cpu__stat="usage_usec 1")
    write(
        top / "slice",
        memory__max=2**34,
        memory__current=7,
        cpu__max="800000 100000",
        cpu__stat=stat.format(1),
    )
    write(
        top / "slice/job",
        memory__max=2**32,
        memory__current=5,
        cpu__max="400000 100000",
        cpu__stat=stat.format(2),
    )
    write(
        top / "slice/job/step",
        memory__max="max",
        memory__current=3,
        cpu__max="max 100000",
        cpu__stat=stat.format(3),
    )
    values = told(started(proc))
    assert values["memory_limit_bytes"] == 2**32
    assert values["memory_used_bytes"] == 5
    assert values["cpu_limit_cpus"] == 4


def test_without_limits_usage_is_still_told_and_limits_are_absent(tmp_path: Path) -> None:
    proc, top = unified(tmp_path, "/user"), tmp_path / "sys/fs/cgroup"
    write(top / "user", memory__max="max", memory__current=11)
    collector = started(proc)
    assert told(collector) == {"memory_used_bytes": 11}


def test_version_1_as_docker_mounts_it(tmp_path: Path) -> None:
    base = tmp_path / "sys/fs/cgroup"
    mounts = (
        f"40 31 0:30 /docker/abc {base}/memory rw - cgroup cgroup rw,memory\n"
        f"41 31 0:31 /docker/abc {base}/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
    )
    proc = system(tmp_path, "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/", mounts)
    write(base / "memory", memory__limit_in_bytes=V1_NO_LIMIT, memory__usage_in_bytes=123)
    stat = "nr_periods 5\nnr_throttled {}\nthrottled_time {}"
    write(
        base / "cpu,cpuacct", cpu__cfs_quota_us=150000, cpu__cfs_period_us=100000, cpu__stat=stat.format(0, 0)
    )
    collector = started(proc)
    values = told(collector)
    assert values["memory_used_bytes"] == 123
    assert "memory_limit_bytes" not in values
    assert values["cpu_limit_cpus"] == 1.5
    write(base / "cpu,cpuacct", cpu__stat=stat.format(2, 2_500_000_000))
    assert told(collector)["cpu_throttled_seconds_total"] == pytest.approx(2.5)


def test_a_group_outside_of_what_is_mounted_is_seen_as_the_root_of_the_mount(tmp_path: Path) -> None:
    proc, top = unified(tmp_path, "/../../elsewhere"), tmp_path / "sys/fs/cgroup"
    write(top, memory__max=100, memory__current=1)
    assert told(started(proc))["memory_limit_bytes"] == 100


def test_one_broken_file_leaves_the_other_values(tmp_path: Path) -> None:
    proc, top = unified(tmp_path, "/"), tmp_path / "sys/fs/cgroup"
    write(top, memory__max="garbage", memory__current=1, cpu__max="100000 100000", cpu__stat="nr_periods 1")
    assert told(started(proc)) == {"cpu_limit_cpus": 1.0}


def test_a_system_without_control_groups_tells_none_of_their_figures(tmp_path: Path) -> None:
    assert told(started(tmp_path / "proc")) == {}
    assert told(started(system(tmp_path, "0::/", "22 1 8:1 / / rw - ext4 /dev/sda rw"))) == {}
