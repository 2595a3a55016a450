"""The collector `nvidia` through nvidia-ml-py on a shared library that answers NVML's calls by script."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from jaxobs_plugins.collectors.nvidia import queries
from jaxobs_plugins.collectors.nvidia.collector import NvidiaCollector
from tests.plugins.nvml.board import ALL, EVERYTHING, QUERIES, series
from tests.plugins.nvml.scripted import HOST, Nvml, built, host, in_use, script, started


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nvml]:
    folder = tmp_path_factory.mktemp("nvml")
    yield from started(folder, built(folder))


def test_every_value_is_in_base_units_under_its_name_and_labels(nvml: Nvml) -> None:
    life = nvml.run(ALL)
    assert life.turns[0].values == pytest.approx(EVERYTHING)
    assert life.reason == ""
    assert life.log == []


def test_every_metric_is_declared_with_the_labels_and_the_unit_it_is_given(nvml: Nvml) -> None:
    life = nvml.run(ALL | {"events": "0 0:31"})
    declared = {metric.name: metric for metric in NvidiaCollector.metrics}
    given = {name for name, _ in life.turns[0].values}
    assert given == set(declared)
    units = ("ratio", "bytes", "watts", "joules", "hertz", "celsius", "seconds", "bytes_per_second")
    for name, labels in life.turns[0].values:
        metric = declared[name]
        assert metric.labels[:2] == ("device", "uuid")
        assert len(metric.labels) == len(labels)
        words = name.removesuffix("_total")
        expected = max((unit for unit in units if words.endswith(f"_{unit}")), key=len, default="")
        assert metric.unit == ("" if name == queries.CLOCKS_EVENT.name else expected)


@pytest.mark.parametrize(
    "code", [3, 4, 13, 999], ids=["not supported", "no permission", "no function", "unknown"]
)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_that_fails_loses_its_own_metrics_only(nvml: Nvml, query: str, code: int) -> None:
    (turn,) = nvml.run(ALL | {query: str(code)}).turns
    assert turn.values == pytest.approx(
        {key: EVERYTHING[key] for key in EVERYTHING.keys() - series(query).keys()}
    )


@pytest.mark.parametrize("query", ["nvmlDeviceGetName", "nvmlDeviceGetUUID/0", "nvmlDeviceGetPciInfo/0"])
def test_a_board_that_does_not_tell_who_it_is_is_left_out_with_the_reason(nvml: Nvml, query: str) -> None:
    life = nvml.run(ALL | {query: "3"})
    assert life.turns[0].values == {}
    assert len(life.log) == 1
    assert "device 0 of NVML cannot be read, and is left out" in life.log[0]


@pytest.mark.parametrize(
    "environment", [{}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "GPU-bbbb"}]
)
def test_beside_a_board_that_is_left_out_no_ordinal_is_known(nvml: Nvml, environment: dict[str, str]) -> None:
    answers = host(3, nvmlDeviceGetPowerUsage="0 1000") | {"nvmlDeviceGetUUID/1": "3"}
    turn = nvml.run(answers, environment=environment, resource=in_use(0, 1)).turns[0]
    assert set(turn.of("power_watts")) == {("", "GPU-aaaa"), ("", "GPU-cccc")}
    answers = host(2, nvmlDeviceGetPowerUsage="0 1000") | {"nvmlDeviceGetUUID/1": "3"}
    turn = nvml.run(answers, environment=environment).turns[0]
    assert set(turn.of("power_watts")) == {("", "GPU-aaaa")}


def test_what_is_not_supported_is_not_asked_for_again_within_ten_minutes(nvml: Nvml) -> None:
    without = HOST | {"nvmlDeviceGetPowerUsage": "0 1000"}
    later = script(without | {"nvmlDeviceGetTotalEnergyConsumption": "0 5000"})
    turns = nvml.run(
        without, {"script": later, "seconds": 599}, {"script": later, "seconds": 2}
    ).turns  # fmt: skip
    assert "nvmlDeviceGetTotalEnergyConsumption/0" in turns[0].calls
    kept = {"nvmlDeviceGetPowerUsage/0", "nvmlEventSetWait"}
    assert set(turns[1].calls) == kept
    assert "nvmlDeviceGetTotalEnergyConsumption/0" in turns[2].calls
    assert ("0", "GPU-aaaa") in turns[2].of("energy_joules_total")


def test_counters_tell_what_was_added_during_the_run(nvml: Nvml) -> None:
    later = ALL | {
        "nvmlDeviceGetTotalEnergyConsumption": "0 123459289",
        "nvmlDeviceGetViolationStatus/0/0": "0 7500000000",
        "nvmlDeviceGetFieldValues/0/139": "0 1000010",
        "nvmlDeviceGetTotalEccErrors/0/1": "0 2",
    }
    turn = nvml.run(ALL, later).turns[1]
    assert turn.of("energy_joules_total") == pytest.approx({("0", "GPU-aaaa"): 2.5})
    assert turn.of("throttled_seconds_total")["0", "GPU-aaaa", "power"] == pytest.approx(2.5)
    assert turn.of("nvlink_bytes_total")["0", "GPU-aaaa", "receive"] == 10 * 1024
    assert turn.of("ecc_errors_total") == {
        ("0", "GPU-aaaa", "corrected"): 0.0, ("0", "GPU-aaaa", "uncorrected"): 2.0,
    }  # fmt: skip


def test_nvlink_5_counts_in_bytes_and_in_fields_of_its_own(nvml: Nvml) -> None:
    def link(received: int, sent: int) -> dict[str, str]:
        fields = {204: f"0 {received}", 202: f"0 {sent}", 139: "3", 138: "3"}
        return ALL | {f"nvmlDeviceGetFieldValues/0/{field}": answer for field, answer in fields.items()}

    first, second = nvml.run(link(7, 9), link(1007, 509)).turns
    assert set(first.of("nvlink_bytes_total").values()) == {0.0}
    assert second.of("nvlink_bytes_total") == {
        ("0", "GPU-aaaa", "receive"): 1000.0, ("0", "GPU-aaaa", "transmit"): 500.0,
    }  # fmt: skip


def test_a_counter_that_falls_adds_nothing_and_goes_on_from_there(nvml: Nvml) -> None:
    energy = [{**HOST, "nvmlDeviceGetTotalEnergyConsumption": f"0 {value}"} for value in (9000, 1000, 1500)]
    turns = nvml.run(*energy).turns
    assert [turn.of("energy_joules_total")["0", "GPU-aaaa"] for turn in turns] == [0.0, 0.0, 0.5]


def test_a_gauge_that_is_no_longer_known_is_taken_away_once(nvml: Nvml) -> None:
    power = ("jaxobs_nvidia_power_watts", ("0", "GPU-aaaa"))
    turns = nvml.run(ALL, ALL | {"nvmlDeviceGetPowerUsage": "999"}, ALL).turns
    assert turns[1].gone == {power}
    assert power not in turns[2].values  # in back-off
    assert nvml.run(
        {"script": script(ALL)}, {"script": script(ALL | {"nvmlDeviceGetPowerUsage": "999"})},
        {"script": script(ALL), "seconds": 31},
    ).turns[2].values[power] == 71.25  # fmt: skip


@pytest.mark.parametrize(
    ("newer", "older", "metric"),
    [
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "temperature_celsius"),
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "clocks_event",
        ),
    ],
)
def test_an_older_driver_is_asked_by_the_older_name(nvml: Nvml, newer: str, older: str, metric: str) -> None:
    (turn,) = nvml.run(HOST | {newer: "13", older: "0 8"}).turns
    assert 1.0 in turn.of(metric).values() or 8.0 in turn.of(metric).values()


def test_xid_errors_are_counted_named_and_said(nvml: Nvml) -> None:
    turns = (host(2), host(2, events="0 0:79 1:31 0:43"), host(2, events="0 0:79 1:31 0:43"))
    life = nvml.run(*turns, resource=in_use(0, 1))
    assert [turn.of("xid_events_total") for turn in life.turns] == [
        {("0", "GPU-aaaa"): 0.0, ("1", "GPU-bbbb"): 0.0},
        {("0", "GPU-aaaa"): 2.0, ("1", "GPU-bbbb"): 1.0},
        {("0", "GPU-aaaa"): 0.0, ("1", "GPU-bbbb"): 0.0},
    ]
    assert life.turns[0].of("last_xid") == {}
    assert life.turns[2].of("last_xid") == {("0", "GPU-aaaa"): 43.0, ("1", "GPU-bbbb"): 31.0}
    assert len(life.log) == 3
    assert "Xid 79 on GPU-aaaa" in life.log[0]


def test_a_board_without_events_leaves_the_events_of_the_others(nvml: Nvml) -> None:
    answers = host(2, events="0 1:31") | {"nvmlDeviceRegisterEvents/0": "3"}
    (turn,) = nvml.run(answers, resource=in_use(0, 1)).turns
    assert turn.of("xid_events_total") == {("1", "GPU-bbbb"): 1.0}


def test_a_lost_device_is_said_once_and_the_others_go_on(nvml: Nvml) -> None:
    fine = host(2, nvmlDeviceGetPowerUsage="0 1000")
    lost = {"script": script(fine | {"nvmlDeviceGetPowerUsage/0": "15"}), "seconds": 5}
    later, back = {**lost, "seconds": 61}, {"script": script(fine), "seconds": 61}
    life = nvml.run(fine, lost, lost, later, back, resource=in_use(0, 1))
    alone = {("1", "GPU-bbbb"): 1.0}
    assert [turn.of("power_watts") for turn in life.turns[1:4]] == [alone] * 3
    assert ("jaxobs_nvidia_power_watts", ("0", "GPU-aaaa")) in life.turns[1].gone
    assert life.turns[1].of("device_up") == {("0", "GPU-aaaa"): 0.0, ("1", "GPU-bbbb"): 1.0}
    assert not [call for call in life.turns[2].calls if "/0" in call]  # left alone
    assert "nvmlDeviceGetPowerUsage/0" in life.turns[3].calls
    assert life.turns[4].of("power_watts") == {("0", "GPU-aaaa"): 1.0, ("1", "GPU-bbbb"): 1.0}
    assert len(life.log) == 1
    assert "GPU-aaaa" in life.log[0]
    assert "lost" in life.log[0]


def test_the_xid_with_which_a_device_is_lost_is_counted(nvml: Nvml) -> None:
    fine = host(2, nvmlDeviceGetPowerUsage="0 1000")
    gone = script(fine | {"nvmlDeviceGetPowerUsage/0": "15", "events": "0 0:79"})
    more = script(fine | {"nvmlDeviceGetPowerUsage/0": "15", "events": "0 0:79 0:119"})
    life = nvml.run(
        fine, {"script": gone, "seconds": 5}, {"script": more, "seconds": 5}, resource=in_use(0, 1)
    )
    of_it = [turn.of("xid_events_total")["0", "GPU-aaaa"] for turn in life.turns]
    assert of_it == [0.0, 1.0, 1.0], "also of a device that is left alone"
    assert life.turns[2].of("last_xid") == {("0", "GPU-aaaa"): 119.0}
    assert life.turns[1].of("device_up") == {("0", "GPU-aaaa"): 0.0, ("1", "GPU-bbbb"): 1.0}


def test_a_lost_device_that_ends_the_wait_for_events_takes_no_other_with_it(nvml: Nvml) -> None:
    fine = host(2, nvmlDeviceGetPowerUsage="0 1000")
    lost = {"nvmlDeviceGetPowerUsage/0": "15", "nvmlEventSetWait": "15"}
    told = {"script": script(fine | {"events": "0 1:31"}), "seconds": 5}
    life = nvml.run(fine, told, {"script": script(fine | lost), "seconds": 5}, resource=in_use(0, 1))
    turn = life.turns[2]
    assert turn.of("device_up") == {("0", "GPU-aaaa"): 0.0, ("1", "GPU-bbbb"): 1.0}
    assert turn.of("power_watts") == {("1", "GPU-bbbb"): 1.0}
    assert turn.of("last_xid") == {("1", "GPU-bbbb"): 31.0}, "what was counted stays"
    assert len([line for line in life.log if "lost" in line]) == 1


def test_a_device_that_cannot_be_opened_leaves_the_others_without_a_known_ordinal(nvml: Nvml) -> None:
    answers = host(3, nvmlDeviceGetPowerUsage="0 1000") | {"nvmlDeviceGetHandleByIndex/1": "15"}
    life = nvml.run(answers, resource=in_use(0, 1, 2))
    assert set(life.turns[0].of("power_watts")) == {("", "GPU-aaaa"), ("", "GPU-cccc")}
    assert "device 1" in life.log[0]


def test_ordinals_follow_what_the_environment_and_jax_say(nvml: Nvml) -> None:
    everything = host(3, nvmlDeviceGetPowerUsage="0 1000")
    environment = {"CUDA_VISIBLE_DEVICES": "2,GPU-aaaa"}
    picked = nvml.run(everything, environment=environment, resource=in_use(0, 1))
    assert set(picked.turns[0].of("power_watts")) == {("0", "GPU-cccc"), ("1", "GPU-aaaa")}
    one = nvml.run(everything, resource=in_use(1))
    assert set(one.turns[0].of("power_watts")) == {("0", "GPU-bbbb")}
    untold = nvml.run(everything, resource={"jax.platform": "gpu"})
    unknown = {("", "GPU-aaaa"), ("", "GPU-bbbb"), ("", "GPU-cccc")}
    assert set(untold.turns[0].of("power_watts")) == unknown


def test_devices_that_the_script_picks_after_the_agent_began_are_the_jobs(nvml: Nvml) -> None:
    everything = host(3, nvmlDeviceGetPowerUsage="0 1000")
    picked = {
        "script": script(everything), "environment": {"CUDA_VISIBLE_DEVICES": "2"}, "resource": in_use(0)
    }  # fmt: skip
    life = nvml.run(everything, picked, resource={})
    assert life.turns[0].values == {}
    assert set(life.turns[1].of("power_watts")) == {("0", "GPU-cccc")}


def test_a_job_on_the_cpu_gets_no_metrics_of_devices_it_does_not_use(nvml: Nvml) -> None:
    life = nvml.run(ALL, ALL, resource={"jax.platform": "cpu"})
    assert [(turn.values, turn.calls) for turn in life.turns] == [({}, []), ({}, [])]
    assert life.reason == "JAX uses no NVIDIA device"
    assert life.last_calls == [], "NVML, which wakes a device that sleeps, is not opened for it"
    assert nvml.run(ALL, resource={}).reason == "JAX has made no backend yet"


def test_a_mig_instance_has_its_own_memory_and_its_boards_power(nvml: Nvml) -> None:
    partitioned = host(1, nvmlDeviceGetPowerUsage="0 1000") | {
        "nvmlDeviceGetMigMode": "0 1",
        "instances/0": "0 2",
        "nvmlDeviceGetUUID/0.0": "0 MIG-1111",
        "nvmlDeviceGetUUID/0.1": "0 MIG-2222",
        "nvmlDeviceGetMemoryInfo_v2/0.0": "0 1000 10 100",
        "nvmlDeviceGetMemoryInfo_v2/0.1": "0 1000 10 200",
        "nvmlDeviceGetComputeRunningProcesses/0.1": "0 4321:50",
    }
    (one,) = nvml.run(partitioned, environment={"CUDA_VISIBLE_DEVICES": "MIG-2222"}).turns
    assert one.of("memory_used_bytes") == {("0", "MIG-2222"): 200.0}
    assert one.of("process_memory_bytes") == {("0", "MIG-2222"): 50.0}
    assert one.of("power_watts") == {("0", "GPU-aaaa"): 1.0}
    assert one.of("device_info") == {("0", "MIG-2222", "GPU-aaaa", "NVIDIA H100 80GB HBM3"): 1.0}
    both = {"CUDA_VISIBLE_DEVICES": "MIG-2222,MIG-1111"}
    (two,) = nvml.run(partitioned, environment=both, resource=in_use(0, 1)).turns
    assert two.of("memory_used_bytes") == {("0", "MIG-2222"): 200.0, ("1", "MIG-1111"): 100.0}
    assert two.of("power_watts") == {("0", "GPU-aaaa"): 1.0}  # once a board: sums count nothing twice
    (unnamed,) = nvml.run(partitioned).turns
    assert unnamed.of("memory_used_bytes") == {("0", "MIG-1111"): 100.0}


def test_process_memory_is_absent_where_the_process_is_not_seen(nvml: Nvml) -> None:
    (turn,) = nvml.run(HOST | {"nvmlDeviceGetComputeRunningProcesses": "0 17:1048576"}).turns
    assert turn.of("process_memory_bytes") == {}
    not_available = 2**64 - 1
    (turn,) = nvml.run(HOST | {"nvmlDeviceGetComputeRunningProcesses": f"0 4321:{not_available}"}).turns
    assert turn.of("process_memory_bytes") == {}


def test_a_driver_of_another_version_is_said_once(nvml: Nvml) -> None:
    life = nvml.run({"nvmlInitWithFlags": "18"}, {}, {}, environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert [turn.values for turn in life.turns] == [{}, {}, {}]
    assert [turn.calls for turn in life.turns[1:]] == [[], []]
    assert "differ in version" in life.reason
    assert life.log == [f"no metrics of NVIDIA devices: {life.reason}"]
    assert life.present == []


def test_the_library_is_opened_and_closed_once(nvml: Nvml) -> None:
    life = nvml.run(HOST)
    assert life.last_calls == ["nvmlEventSetFree", "nvmlShutdown"]
    assert life.present == ["NVIDIA H100 80GB HBM3"]


@pytest.mark.parametrize(("environment", "lines"), [({"CUDA_VISIBLE_DEVICES": "0"}, 1), ({}, 0)])
def test_without_the_library_it_says_so_once_where_a_device_was_expected_and_stays_quiet(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], lines: int
) -> None:
    for nvml in started(tmp_path_factory.mktemp("without"), None):
        life = nvml.run({}, {}, {}, environment=environment)
        assert [turn.values for turn in life.turns] == [{}, {}, {}]
        assert "libnvidia-ml.so.1 was not found" in life.reason
        assert life.log == [f"no metrics of NVIDIA devices: {life.reason}"] * lines
        assert life.present == []


def test_values_are_finite_or_take_a_gauge_away(nvml: Nvml) -> None:
    life = nvml.run(ALL)
    assert all(math.isfinite(value) for value in life.turns[0].values.values())
