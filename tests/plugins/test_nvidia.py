"""The NVIDIA collector: quiet without NVML, and in base units with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from jaxobs.plugin.discovery import COLLECTORS, conformance_problem
from jaxobs_plugins.nvidia import NvidiaCollector


def test_it_keeps_the_contract() -> None:
    assert conformance_problem(COLLECTORS, NvidiaCollector()) == ""


def test_without_a_driver_it_is_quiet_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", absent)
    collector = NvidiaCollector()
    collector.start(SimpleNamespace())  # type: ignore[arg-type]
    assert collector.collect() == []
    assert "NVML Shared Library Not Found" in collector.reason
    assert collector.devices_present() == ()
    collector.stop()
    collector.stop()


@pytest.fixture
def two_devices(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """NVML as it answers for two devices, of which the second has no power sensor; returns the calls that count."""
    calls: list[str] = []

    def power(device: int) -> int:
        if device == 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 71_250

    answers: dict[str, Any] = {
        "nvmlInit": lambda: calls.append("init"),
        "nvmlShutdown": lambda: calls.append("shutdown"),
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetUUID": lambda device: f"GPU-{device}",
        "nvmlDeviceGetName": lambda _: "NVIDIA H100",
        "nvmlDeviceGetUtilizationRates": lambda _: SimpleNamespace(gpu=37, memory=5),
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=2**30),
        "nvmlDeviceGetPowerUsage": power,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return calls


def test_values_are_in_base_units_and_what_is_not_supported_is_left_out(two_devices: list[str]) -> None:
    collector = NvidiaCollector()
    collector.start(SimpleNamespace())  # type: ignore[arg-type]
    values = {(measured.metric, measured.labels[0]): measured.value for measured in collector.collect()}
    assert values == {
        ("jaxobs_nvidia_utilization_ratio", "GPU-0"): 0.37,
        ("jaxobs_nvidia_memory_used_bytes", "GPU-0"): 2**30,
        ("jaxobs_nvidia_power_watts", "GPU-0"): 71.25,
        ("jaxobs_nvidia_utilization_ratio", "GPU-1"): 0.37,
        ("jaxobs_nvidia_memory_used_bytes", "GPU-1"): 2**30,
    }
    assert collector.devices_present() == ("NVIDIA H100", "NVIDIA H100")
    collector.stop()
    collector.stop()
    assert two_devices == ["init", "init", "shutdown", "shutdown"]
