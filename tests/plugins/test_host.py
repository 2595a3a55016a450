"""The host collector against what this process and its host really use."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from jaxobs_plugins.collectors.host import HostCollector, is_disk, of_hardware


def collected(collector: HostCollector) -> dict[str, float]:
    return {measured.metric: measured.value for measured in collector.collect()}


def agent_of(pid: int) -> Any:
    return SimpleNamespace(resource={"process.pid": str(pid)})


@pytest.fixture
def collector() -> Any:
    made = HostCollector()
    made.start(agent_of(os.getpid()))
    yield made
    made.stop()
    made.stop()


def test_all_that_is_measured_is_declared_and_of_the_process_all_but_a_limit_is_told(
    collector: HostCollector,
) -> None:
    time.sleep(0.05)  # a few clock ticks, so that the host's share can be known
    names = {metric.name for metric in HostCollector.metrics}
    measured = set(collected(collector))
    assert measured <= names
    assert {name for name in names if name.startswith("jaxobs_process_")} - measured <= {
        "jaxobs_process_open_files_limit"
    }


def test_labels_are_those_declared_and_every_value_can_be_exported(collector: HostCollector) -> None:
    declared = {metric.name: metric for metric in HostCollector.metrics}
    time.sleep(0.05)
    for measured in collector.collect():
        assert len(measured.labels) == len(declared[measured.metric].labels)
        assert math.isfinite(measured.value)
        assert measured.value >= 0


def test_processor_time_adds_up_to_the_processs_own(collector: HostCollector) -> None:
    first = collected(collector)["jaxobs_process_cpu_seconds_total"]
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    second = collected(collector)["jaxobs_process_cpu_seconds_total"]
    assert second >= 0.25
    assert first + second == pytest.approx(time.process_time(), abs=0.1)  # /proc counts in ticks of 10 ms


def test_values_are_in_base_units(collector: HostCollector) -> None:
    time.sleep(0.05)
    values = collected(collector)
    assert values["jaxobs_process_resident_bytes"] == pytest.approx(
        psutil.Process().memory_info().rss, rel=0.2
    )
    assert 0 < values["jaxobs_host_memory_available_bytes"] <= psutil.virtual_memory().total
    assert values["jaxobs_host_memory_total_bytes"] == psutil.virtual_memory().total
    assert 0 <= values["jaxobs_host_cpu_utilization_ratio"] <= 1
    assert values["jaxobs_host_cpus"] == os.cpu_count()
    assert values["jaxobs_process_usable_cpus"] == len(os.sched_getaffinity(0))
    assert values["jaxobs_process_open_files"] == pytest.approx(
        len(list(Path("/proc/self/fd").iterdir())), abs=2
    )
    assert values["jaxobs_process_open_files_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert values["jaxobs_process_threads"] == len(list(Path("/proc/self/task").iterdir()))


def test_a_process_that_has_gone_leaves_the_hosts_values() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    collector = HostCollector()
    collector.start(agent_of(process.pid))
    assert "jaxobs_process_threads" in collected(collector)
    process.communicate()
    values = collected(collector)
    told = {name for name, value in values.items() if not math.isnan(value)}  # NaN takes a gauge away
    assert not any(name.startswith("jaxobs_process_") for name in told)
    assert "jaxobs_host_memory_available_bytes" in told
    assert not any(math.isnan(value) for value in collected(collector).values())


def test_one_value_that_the_system_refuses_leaves_the_others(
    collector: HostCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: psutil.Process) -> int:
        raise psutil.AccessDenied

    collected(collector)
    monkeypatch.setattr(psutil.Process, "num_fds", refuse)
    values = collected(collector)
    assert math.isnan(values.pop("jaxobs_process_open_files"))
    assert "jaxobs_process_threads" in values


def test_loopback_and_an_interface_that_comes_later_are_no_traffic_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "jaxobs_host_network_bytes_total"
    seen = {each: SimpleNamespace(bytes_recv=0, bytes_sent=0) for each in ("lo", "veth-a")}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: dict(seen))
    collector = HostCollector()
    collector.start(agent_of(os.getpid()))
    seen |= {each: SimpleNamespace(bytes_recv=7, bytes_sent=5) for each in ("lo", "veth-a", "veth-b")}
    told = {each.labels: each.value for each in collector.collect() if each.metric == name}
    assert told == {("receive",): 7.0, ("transmit",): 5.0}


def test_interfaces_with_hardware_count_else_all(tmp_path: Path) -> None:
    for name in ("lo", "eth0", "docker0"):
        (tmp_path / name).mkdir()
    assert of_hardware(["eth0", "docker0"], tmp_path) == ["docker0", "eth0"]
    (tmp_path / "eth0" / "device").mkdir()
    assert of_hardware(["eth0", "docker0"], tmp_path) == ["eth0"]


def test_disks_with_hardware_count_else_all_but_partitions_loops_and_memory(tmp_path: Path) -> None:
    names = ["cciss/c0d0", "dm-0", "loop0", "md0", "nvme0n1", "nvme0n1p1", "zram0"]
    for name in ("dm-0", "loop0", "md0", "zram0"):
        (tmp_path / name).mkdir()
    assert [name for name in names if is_disk(name, tmp_path)] == ["dm-0", "md0"]
    for name in ("cciss!c0d0", "nvme0n1"):
        (tmp_path / name / "device").mkdir(parents=True)
    disks = [name for name in names if is_disk(name, tmp_path)]
    assert disks == ["cciss/c0d0", "dm-0", "md0", "nvme0n1"]
    assert of_hardware(disks, tmp_path) == ["cciss/c0d0", "nvme0n1"]


def test_what_passes_a_raid_and_its_disks_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = [
        name for name in psutil.disk_io_counters(perdisk=True) if Path("/sys/block", name, "device").exists()
    ]
    if not disks:
        pytest.skip("the system shows no disk of hardware")
    passed = {"bytes": 0}

    def counters(*, perdisk: bool = False) -> Any:
        each = SimpleNamespace(read_bytes=passed["bytes"], write_bytes=0)
        both = SimpleNamespace(read_bytes=2 * passed["bytes"], write_bytes=0)
        return {disks[0]: each, "md0": each} if perdisk else both

    monkeypatch.setattr(psutil, "disk_io_counters", counters)
    collector = HostCollector()
    collector.start(agent_of(os.getpid()))
    passed["bytes"] = 1000
    told = {
        each.labels: each.value
        for each in collector.collect()
        if each.metric == "jaxobs_host_disk_bytes_total"
    }
    assert told == {("read",): 1000.0, ("write",): 0.0}
