"""The host collector against what this process and its host really use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from jaxobs.plugin.discovery import COLLECTORS, conformance_problem
from jaxobs_plugins.host import HostCollector


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


def test_it_keeps_the_contract() -> None:
    assert conformance_problem(COLLECTORS, HostCollector()) == ""


def test_every_declared_metric_is_measured_and_no_other(collector: HostCollector) -> None:
    time.sleep(0.05)  # a few clock ticks, so that the host's share can be known
    assert set(collected(collector)) == {metric.name for metric in HostCollector.metrics}


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
    assert 0 <= values["jaxobs_host_cpu_utilization_ratio"] <= 1


def test_a_process_that_has_gone_leaves_the_hosts_values() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    collector = HostCollector()
    collector.start(agent_of(process.pid))
    assert "jaxobs_process_threads" in collected(collector)
    process.communicate()
    values = collected(collector)
    assert not any(name.startswith("jaxobs_process_") for name in values)
    assert "jaxobs_host_memory_available_bytes" in values
