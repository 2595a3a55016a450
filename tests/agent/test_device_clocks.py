"""A real agent with the collector `nvidia` on the scripted library: what it reads stands beside what the agent models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs.model.clock import now
from jaxobs.model.events import BackendFound
from tests.agent.beside import AgentProcess
from tests.agent.test_agent import steps
from tests.derive.made_up import unexplained
from tests.plugins.nvml.scripted import HOST, built, script

Start = Callable[..., AgentProcess]

THROTTLED = HOST | {
    "nvmlDeviceGetUtilizationRates": "0 97 40",
    "nvmlDeviceGetClockInfo/0/1": "0 1240",
    "nvmlDeviceGetMaxClockInfo/0/1": "0 2000",
    "nvmlDeviceGetClockInfo/0/2": "0 2619",
    "nvmlDeviceGetMaxClockInfo/0/2": "0 2619",
    "nvmlDeviceGetCurrentClocksEventReasons": "0 4",
}


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that the agent's NVML answers by."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(built(tmp_path).parent))
    monkeypatch.setenv("NVML_SCRIPT", str(tmp_path / "script"))
    for name in ("JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "script"


def test_a_throttled_device_is_named_in_the_snapshot(library: Path, start_agent: Start) -> None:
    library.write_text(script(THROTTLED))
    agent = start_agent()
    found = BackendFound("gpu", ((0, "NVIDIA H200", "GPU-aaaa"),), 0, 1, "0.10.2", "0.10.2", now())
    agent.send([found, *steps(30)])
    document = agent.snapshot_when(lambda seen: _clocks(seen) is not None)
    assert unexplained(document) == []
    clocks = _clocks(document)
    assert (clocks["utilization_ratio"], clocks["clock_ratio"], clocks["memory_clock_ratio"]) == (
        0.97,
        0.62,
        1.0,
    )
    assert clocks["throttle_reasons"] == ["sw_power_cap"]
    agent.metrics_when('jaxobs_device_throttled_info{device="0",reason="sw_power_cap"} 1.0')
    text = agent.metrics_when('jaxobs_device_clock_ratio{device="0"} 0.62')
    assert 'jaxobs_device_utilization_ratio{device="0"} 0.97' in text
    assert document["sources"]["nvidia"]["up"] is True
    assert document["sources"]["nvidia"]["reason"] is None


def test_without_a_driver_the_source_says_so_and_is_neither_up_nor_down(start_agent: Start) -> None:
    agent = start_agent()
    found = BackendFound("gpu", ((0, "no device that is known", ""),), 0, 1, "0.10.2", "0.10.2", now())
    agent.send([found, *steps(3)])
    expected = {
        "nvidia": "no NVIDIA driver is installed: libnvidia-ml.so.1 was not found",
        "amd": "no AMD driver is loaded",
        "tpu": "libtpu is not installed",
    }
    document = agent.snapshot_when(
        lambda seen: {name: seen["sources"][name]["reason"] for name in expected} == expected
    )
    assert unexplained(document) == []
    for name in expected:
        source = document["sources"][name]
        assert source["up"] is None
        assert source["up_reason"] == source["reason"]
        assert source["failures"] == 0
    assert document["sources"]["host"]["up"] is True
    text = agent.metrics_when('jaxobs_source_up{source="host"} 1.0')
    assert 'jaxobs_source_up{source="nvidia"}' not in text
    assert agent.logs == []


def _clocks(document: dict[str, Any]) -> Any:
    return document["devices"][0]["clocks"] if document["devices"] else None
