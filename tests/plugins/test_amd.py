"""The AMD collector on a stand-in for the package `amdsmi`, which answers as AMD describes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jaxobs_plugins.collectors.amd import REASONS, AmdCollector

STAND_IN = """
class AmdSmiException(Exception): pass
class AmdSmiMemoryType: VRAM = 0
class AmdSmiClkType:
    GFX, MEM = 1, 5
FAILING, CALLS = set(), []
def answer(name, value):
    def function(*arguments):
        CALLS.append(name)
        if name in FAILING: raise AmdSmiException(name)
        return value(*arguments) if callable(value) else value
    globals()[name] = function
answer("amdsmi_init", None)
answer("amdsmi_shut_down", None)
answer("amdsmi_get_processor_handles", ["b", "a"])
answer("amdsmi_get_gpu_enumeration_info", lambda handle: {"hip_id": "ab".index(handle)})
answer("amdsmi_get_gpu_device_uuid", lambda handle: "uuid-" + handle)
answer("amdsmi_get_gpu_activity", {"gfx_activity": 93, "umc_activity": "N/A", "mm_activity": 0})
answer("amdsmi_get_gpu_memory_usage", 2**30)
answer("amdsmi_get_gpu_memory_total", 2**37)
answer("amdsmi_get_gpu_process_list", [{"pid": 1, "memory_usage": {"vram_mem": 5}},
                                       {"pid": 77, "memory_usage": {"vram_mem": 6}}])
answer("amdsmi_get_power_info", {"current_socket_power": "N/A", "average_socket_power": 310, "power_limit": 750})
joules = iter(range(7, 100))
answer("amdsmi_get_energy_count", lambda handle: {"energy_accumulator": next(joules) * 65359, "counter_resolution": 15.3})
answer("amdsmi_get_clock_info", lambda handle, kind: {"clk": 100 * kind, "max_clk": 2100})
answer("amdsmi_get_violation_status", {"active_ppt_pwr": True, "active_prochot_thrm": False,
    "active_socket_thrm": 0, "active_vr_thrm": "N/A", "active_hbm_thrm": 1})
answer("amdsmi_get_gpu_total_ecc_count", {"correctable_count": 3, "uncorrectable_count": 0, "deferred_count": 0})
"""
QUERIES = {
    "amdsmi_get_gpu_activity": {"utilization_ratio"},
    "amdsmi_get_gpu_memory_usage": {"memory_used_bytes", "memory_total_bytes"},
    "amdsmi_get_gpu_process_list": {"process_memory_bytes"},
    "amdsmi_get_power_info": {"power_watts", "power_limit_watts"},
    "amdsmi_get_energy_count": {"energy_joules_total"},
    "amdsmi_get_clock_info": {"clock_hertz", "clock_limit_hertz"},
    "amdsmi_get_violation_status": {"throttled"},
    "amdsmi_get_gpu_total_ecc_count": {"ecc_errors_total"},
}
RESOURCE = {"process.pid": "77", "jax.platform": "gpu"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "amdsmi.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("amdsmi", None)


def started(package: Path, environment: dict[str, str] | None = None, **resource: str) -> Any:
    agent: Any = SimpleNamespace(resource=RESOURCE | resource, log=lambda line: None)
    collector = AmdCollector(environment or {}, driver=package)
    collector.start(agent)
    return collector


def of_first(collector: AmdCollector) -> dict[tuple[str, ...], float]:
    return {
        (value.metric.removeprefix("jaxobs_amd_"), *value.labels[2:]): value.value
        for value in collector.collect()
        if value.labels[:2] == ("0", "uuid-a")
    }


def test_a_device_that_does_not_tell_its_uuid_leaves_the_others_theirs(package: Path) -> None:
    source = (package / "amdsmi.py").read_text()
    mute = """
def amdsmi_get_gpu_device_uuid(handle):
    if handle == "b": raise AmdSmiException("no UUID")
    return "uuid-" + handle
"""
    (package / "amdsmi.py").write_text(source + mute)
    assert {value.labels[1] for value in started(package).collect()} == {"uuid-a"}


def test_every_value_is_in_base_units(package: Path) -> None:
    collector = started(package)
    first = of_first(collector)
    assert first == {
        ("utilization_ratio",): pytest.approx(0.93),
        ("memory_used_bytes",): 2**30,
        ("memory_total_bytes",): 2**37,
        ("process_memory_bytes",): 6,
        ("power_watts",): 310,
        ("power_limit_watts",): 750,
        ("energy_joules_total",): 0.0,
        ("clock_hertz", "graphics"): 1e8,
        ("clock_limit_hertz", "graphics"): 2.1e9,
        ("clock_hertz", "memory"): 5e8,
        ("clock_limit_hertz", "memory"): 2.1e9,
        ("throttled", "package_power"): 1.0,
        ("throttled", "processor_hot"): 0.0,
        ("throttled", "socket_thermal"): 0.0,
        ("throttled", "memory_thermal"): 1.0,
        ("ecc_errors_total", "corrected"): 0.0,
        ("ecc_errors_total", "uncorrected"): 0.0,
    }
    assert {name for name, *_ in first} | {"memory_utilization_ratio"} == {
        metric.name.removeprefix("jaxobs_amd_") for metric in AmdCollector.metrics
    }
    assert {reason for name, reason in (key for key in first if key[0] == "throttled")} < set(REASONS)
    assert of_first(collector)["energy_joules_total",] == pytest.approx(
        2.0, rel=1e-4
    )  # two counts of about 1 J
    collector.stop()
    collector.stop()
    assert sys.modules["amdsmi"].CALLS.count("amdsmi_shut_down") == 1


@pytest.mark.parametrize(
    ("answer", "watts"),
    [(750, 750.0), (1_000_000_000, 1000.0), (15_000_000, 15.0), (750_000, None), (0, None), ("N/A", None)],
)
def test_a_power_limit_in_microwatts_is_one_in_watts(
    package: Path, answer: object, watts: float | None
) -> None:
    told = f"lambda handle: {{'current_socket_power': 300, 'power_limit': {answer!r}}}"
    (package / "amdsmi.py").write_text(f"{STAND_IN}\nanswer('amdsmi_get_power_info', {told})\n")
    first = of_first(started(package))
    assert first["power_watts",] == 300
    assert first.get(("power_limit_watts",)) == watts


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_fails_loses_its_own_metrics_only(package: Path, query: str) -> None:
    whole = {name for name, *_ in of_first(started(package))}
    sys.modules["amdsmi"].FAILING.add(query)
    assert {name for name, *_ in of_first(started(package))} == whole - QUERIES[query]


@pytest.mark.parametrize(
    ("environment", "resource", "expected"),
    [
        ({}, {}, [("0", "uuid-a"), ("1", "uuid-b")]),
        ({"HIP_VISIBLE_DEVICES": "1"}, {}, [("0", "uuid-b")]),
        ({"ROCR_VISIBLE_DEVICES": "1,0"}, {}, [("0", "uuid-b"), ("1", "uuid-a")]),
        ({"HIP_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "1"}, {}, [("", "uuid-a"), ("", "uuid-b")]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-1f"}, {}, [("", "uuid-a"), ("", "uuid-b")]),
        ({}, {"jax.process_count": "2"}, [("", "uuid-a"), ("", "uuid-b")]),
        ({}, {"jax.platform": "cpu"}, []),
    ],
)
def test_ordinals_are_told_where_they_are_known(
    package: Path, environment: dict[str, str], resource: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    collector = started(package, environment, **resource)
    assert sorted({value.labels[:2] for value in collector.collect()}) == sorted(expected)


def test_devices_that_the_script_picks_after_the_agent_began_are_the_jobs(package: Path) -> None:
    resource, environment = {"process.pid": "77"}, {"JAX_PLATFORMS": "rocm"}
    agent: Any = SimpleNamespace(resource=resource, log=lambda line: None)
    collector = AmdCollector(environment, driver=package)
    collector.start(agent)
    assert list(collector.collect()) == []
    assert collector.reason == "JAX has made no backend yet"
    environment["HIP_VISIBLE_DEVICES"] = "1"
    resource["jax.platform"] = "gpu"
    assert {value.labels[:2] for value in collector.collect()} == {("0", "uuid-b")}


def test_without_driver_or_package_it_is_quiet_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    agent: Any = SimpleNamespace(resource=RESOURCE, log=lines.append)
    without_driver = AmdCollector({}, driver=tmp_path / "none")
    without_driver.start(agent)
    assert list(without_driver.collect()) == []
    assert lines == []
    on_processors: Any = SimpleNamespace(resource={"jax.platform": "cpu"}, log=lines.append)
    unused = AmdCollector({}, driver=tmp_path)
    unused.start(on_processors)
    assert list(unused.collect()) == []
    assert (unused.reason, lines) == ("JAX uses no AMD device", [])
    without_package = AmdCollector({}, driver=tmp_path)
    without_package.start(agent)
    assert list(without_package.collect()) == list(without_package.collect()) == []
    assert lines == [f"no metrics of AMD devices: {without_package.reason}"]
    assert "No module named 'amdsmi'" in without_package.reason
    assert capsys.readouterr().out == ""
    without_package.stop()
