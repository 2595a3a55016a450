"""The TPU collector on a stand-in for the package `libtpu`, with lists in the formats that libtpu 0.0.52 describes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jaxobs_plugins.collectors.tpu import QUIET, TpuCollector

SDK = """
from types import SimpleNamespace
DATA = {
    "duty_cycle_pct": ["10.00", "93.50"],
    "hbm_util": ["0.00", "20.00"],
    "hbm_capacity_total": ["33550229504", "33550229504"],
    "hbm_capacity_usage": ["1073741824", "0"],
    "tensorcore_util": ["1.11", "2.22", "0.00", "44.00"],
    "tpu_throttle_score": ["0-0", "1-3"],
    "hlo_queue_size": ["tensorcore_0: 0", "tensorcore_1: 10"],
    "ici_link_health": ["tray1.chip3.ici0.int: 0", "tray1.chip3.ici1.int: 10"],
}
FAILING = set()
def get_metric(name):
    if name in FAILING: raise RuntimeError(name)
    return SimpleNamespace(data=lambda: DATA[name], description=lambda: name)
tpumonitoring = SimpleNamespace(list_supported_metrics=lambda: list(DATA), get_metric=get_metric)
"""
QUERIES = {
    "duty_cycle_pct": "duty_cycle_ratio",
    "hbm_util": "memory_bandwidth_ratio",
    "hbm_capacity_total": "memory_total_bytes",
    "hbm_capacity_usage": "memory_used_bytes",
    "tensorcore_util": "tensorcore_utilization_ratio",
    "tpu_throttle_score": "throttled_ratio",
    "hlo_queue_size": "queued_programs",
    "ici_link_health": "link_health",
}
RESOURCE = {"process.pid": "1", "jax.platform": "tpu", "jax.local_hardware_ids": "0,1"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "libtpu").mkdir()
    (tmp_path / "libtpu" / "__init__.py").touch()
    (tmp_path / "libtpu" / "sdk.py").write_text(SDK)
    monkeypatch.syspath_prepend(tmp_path)
    for name in QUIET:
        monkeypatch.setenv(name, "as the user set it")
    yield tmp_path / "libtpu"
    for name in ("libtpu.sdk", "libtpu"):
        sys.modules.pop(name, None)


def started(lines: list[str] | None = None, resource: dict[str, Any] | None = None) -> Any:
    told = {name: value for name, value in (RESOURCE | (resource or {})).items() if value is not None}
    agent: Any = SimpleNamespace(resource=told, log=[].append if lines is None else lines.append)
    collector = TpuCollector()
    collector.start(agent)
    return collector


def series(collector: TpuCollector) -> dict[tuple[str, ...], float]:
    return {
        (value.metric.removeprefix("jaxobs_tpu_"), *value.labels): value.value
        for value in collector.collect()
    }


def test_every_value_is_in_base_units_under_its_chip_core_or_link(package: Path) -> None:
    collector = started()
    found = series(collector)
    assert found == pytest.approx({
        ("duty_cycle_ratio", "0", "0"): 0.1, ("duty_cycle_ratio", "1", "1"): 0.935,
        ("memory_bandwidth_ratio", "0", "0"): 0.0, ("memory_bandwidth_ratio", "1", "1"): 0.2,
        ("memory_total_bytes", "0", "0"): 33550229504.0, ("memory_total_bytes", "1", "1"): 33550229504.0,
        ("memory_used_bytes", "0", "0"): 2.0**30, ("memory_used_bytes", "1", "1"): 0.0,
        # Four cores and two devices: which core is whose is not known.
        ("tensorcore_utilization_ratio", "", "0"): 0.0111, ("tensorcore_utilization_ratio", "", "1"): 0.0222,
        ("tensorcore_utilization_ratio", "", "2"): 0.0, ("tensorcore_utilization_ratio", "", "3"): 0.44,
        ("throttled_ratio", "0", "0"): 0.0, ("throttled_ratio", "1", "1"): 0.3,
        ("queued_programs", "tensorcore_0"): 0.0, ("queued_programs", "tensorcore_1"): 10.0,
        ("link_health", "tray1.chip3.ici0.int"): 0.0, ("link_health", "tray1.chip3.ici1.int"): 10.0,
    })  # fmt: skip
    assert {name for name, *_ in found} == {
        metric.name.removeprefix("jaxobs_tpu_") for metric in TpuCollector.metrics
    }
    assert collector.reason == ""
    assert all(os.environ[name] == "as the user set it" for name in QUIET)
    collector.stop()
    collector.stop()


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_fails_loses_its_own_metric_only(package: Path, query: str) -> None:
    collector = started()
    whole = {name for name, *_ in series(collector)}
    sys.modules["libtpu.sdk"].FAILING.add(query)
    assert {name for name, *_ in series(started())} == whole - {QUERIES[query]}


def test_a_metric_that_this_libtpu_has_not_got_is_missing_alone(package: Path) -> None:
    (package / "sdk.py").write_text(SDK + "del DATA['hbm_util']\nDATA['tpu_throttle_score'] = ['0-?']\n")
    assert {name for name, *_ in series(started())} == set(QUERIES.values()) - {
        "memory_bandwidth_ratio", "throttled_ratio",
    }  # fmt: skip


@pytest.mark.parametrize("told", ["0", "0,1,2,3", None])
def test_a_chip_is_no_device_where_the_list_may_be_of_others_too(package: Path, told: str | None) -> None:
    found = series(started(resource={"jax.local_hardware_ids": told}))
    assert {labels[0] for name, *labels in found if name == "duty_cycle_ratio"} == {""}


def test_nothing_is_asked_before_jax_uses_a_tpu(package: Path) -> None:
    (package / "sdk.py").write_text("raise SystemExit('imported')")
    early = started(resource={"jax.platform": None})
    assert list(early.collect()) == []
    assert early.reason == "JAX has made no backend yet"
    other = started(resource={"jax.platform": "cpu"})
    assert list(other.collect()) == []
    assert other.reason == "JAX uses no TPU"


@pytest.mark.parametrize(
    ("sdk", "said"),
    [
        ("import os\nos.abort()", "crashes in this Python (signal 6)"),
        ("import time\ntime.sleep(60)", "gave no answer within 2 s"),
        ("raise ImportError('built for another Python')", "built for another Python"),
        ("", "tpumonitoring"),
    ],
)
def test_a_library_that_crashes_hangs_or_fails_is_left_alone_and_said_so_once(
    package: Path, sdk: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if "within 2 s" in said:  # the others have their time, on a busy machine too
        monkeypatch.setattr("jaxobs_plugins.collectors.tpu.TRIAL_SECONDS", 2.0)
    (package / "sdk.py").write_text(sdk)
    lines: list[str] = []
    collector = started(lines)
    assert list(collector.collect()) == list(collector.collect()) == []
    assert lines == [f"no metrics of TPUs: {collector.reason}"]
    assert said in collector.reason
    assert capfd.readouterr() == ("", "")


def test_lists_that_are_empty_say_where_they_would_come_from(package: Path) -> None:
    (package / "sdk.py").write_text(SDK + "DATA = dict.fromkeys(DATA, [])\n")
    collector = started()
    assert list(collector.collect()) == []
    assert "8431" in collector.reason


def test_without_the_package_it_is_quiet_and_says_why() -> None:
    lines: list[str] = []
    collector = started(lines)
    assert list(collector.collect()) == []
    assert collector.reason == "libtpu is not installed"
    assert lines == []
