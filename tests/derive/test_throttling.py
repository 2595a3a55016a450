"""Clocks that collectors read: which series say what, and what low ones take from a device's speed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.devices import LOW_CLOCK, Reading, Taken, average, read_device
from jaxobs.derive.fold import Fold
from jaxobs.model.events import ExecutableRan, FunctionWatched, Measured, StacksTaken
from jaxobs.model.metrics import Catalogue, DeviceReading, Metric
from tests.derive.made_up import (
    BEGAN,
    CLOCK,
    FACTS,
    PEAKS,
    RESOURCE,
    SECOND,
    applied,
    at,
    backend,
    check,
    created,
    families,
    module,
    step,
    waits,
)

BUSY_SHARE = Metric("other_busy_ratio", "gauge", "Busy.", ("device",), "ratio")
FREQUENCY = Metric("other_frequency_hertz", "gauge", "Clock.", ("kind", "device"), "hertz")
HIGHEST = Metric("other_highest_hertz", "gauge", "Highest clock.", ("kind", "device"), "hertz")
WATTS = Metric("other_power_watts", "gauge", "Power.", ("device",), "watts")
MOST_WATTS = Metric("other_power_limit_watts", "gauge", "Most power.", ("device",), "watts")
HELD = Metric("other_held", "gauge", "Held down.", ("device", "reason"))
READINGS = (
    DeviceReading("utilization", BUSY_SHARE),
    DeviceReading("clock", FREQUENCY, (("kind", "shader"),)),
    DeviceReading("clock_limit", HIGHEST, (("kind", "shader"),)),
    DeviceReading("memory_clock", FREQUENCY, (("kind", "memory"),)),
    DeviceReading("memory_clock_limit", HIGHEST, (("kind", "memory"),)),
    DeviceReading("throttled", HELD, reasons=("heat", "power")),
    DeviceReading("power", WATTS),
    DeviceReading("power_limit", MOST_WATTS),
)
SERIES: dict[str, dict[tuple[str, ...], float]] = {
    BUSY_SHARE.name: {("0",): 0.98, ("1",): 0.5},
    FREQUENCY.name: {("shader", "0"): 1.24e9, ("memory", "0"): 2.6e9, ("shader", "1"): 2e9},
    HIGHEST.name: {("shader", "0"): 2e9, ("memory", "0"): 2.6e9, ("shader", "1"): 2e9},
    WATTS.name: {("0",): 175.0},
    MOST_WATTS.name: {("0",): 700.0},
    HELD.name: {("0", "power"): 1.0, ("0", "heat"): 0.0, ("0", "idle"): 1.0},
}

LOW = {"utilization": 0.9, "clock": 1e9, "clock_limit": 2e9}


def test_a_devices_own_series_are_read_and_no_others() -> None:
    read = read_device(READINGS, lambda name: SERIES.get(name, {}), "0")
    clocks = {"clock": 1.24e9, "clock_limit": 2e9, "memory_clock": 2.6e9, "memory_clock_limit": 2.6e9}
    assert read == Reading(clocks | {"utilization": 0.98, "power": 175.0, "power_limit": 700.0}, ("power",))
    assert read.ratio("clock") == 0.62
    assert read.ratio("memory_clock") == 1.0
    assert read.ratio("power") == 0.25
    other = read_device(READINGS, lambda name: SERIES.get(name, {}), "1")
    assert other == Reading({"utilization": 0.5, "clock": 2e9, "clock_limit": 2e9})
    assert other.ratio("memory_clock") is None
    assert read_device(READINGS, lambda name: SERIES.get(name, {}), "2") is None
    assert read_device((), lambda name: SERIES.get(name, {}), "0") is None


@pytest.mark.parametrize(
    ("quantity", "metric", "where"),
    [
        ("utilization", Metric("other_busy_ratio", "gauge", "Busy.", ("chip",), "ratio"), ()),
        ("clock", BUSY_SHARE, (("kind", "shader"),)),
        ("throttled", BUSY_SHARE, ()),
    ],
)
def test_a_metric_without_the_labels_that_are_needed_is_refused(
    quantity: str, metric: Metric, where: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(ValueError, match="lacks labels"):
        DeviceReading(quantity, metric, where)  # type: ignore[arg-type]  # of any word


def measured(fold: Fold) -> Fold:
    return applied(
        fold,
        [
            Measured(name, labels, value, at(1))
            for name, found in SERIES.items()
            for labels, value in found.items()
        ],
    )


def observed() -> Fold:
    metrics = [*CORE_METRICS, BUSY_SHARE, FREQUENCY, HIGHEST, WATTS, MOST_WATTS, HELD]
    fold = Fold(Catalogue(metrics), CLOCK, BEGAN, RESOURCE, FACTS, 2_000, READINGS)
    applied(fold, [backend(), created(1), FunctionWatched(-1, "f", "no", at(0.2))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1.64e10))  # 16.4 ms at 1 TFLOP/s
    fold.apply(waits())
    applied(fold, [step(i, 0.5 + i / 10, 0.55 + i / 10, runs=(1,)) for i in range(20)])
    return applied(fold, [ExecutableRan(1, 0.04, 0.0004, at(3))])


def test_a_loop_that_stands_still_is_told_with_how_busy_the_devices_are_and_at_what_power() -> None:
    fold = measured(applied(observed(), [step(20, 3.2, 3.3), step(21, 3.3, 3.4)]))
    fold.stands_still(at(3.4))
    assert fold.stands_still(at(30)) is not None
    stack = (1, "MainThread", "train.py:12 main", "acquire", "waiting", ("train.py:12 main",))
    fold.apply(StacksTaken((stack,), at(30.5)))
    fold.stands_still(at(31))
    (hang,) = fold.snapshot(at(32))["hangs"]
    assert hang["devices"] == [
        {"device": 0, "utilization_ratio": 0.98, "power_ratio": 0.25},
        {"device": 1, "utilization_ratio": 0.5, "power_ratio": None},
    ]


def test_a_throttled_device_is_named_in_the_snapshot_and_the_metrics() -> None:
    snapshot = measured(observed()).snapshot(at(4))
    check(snapshot, {})
    first, second = snapshot.to_dict()["devices"]
    clocks = first["clocks"]
    assert (clocks["utilization_ratio"], clocks["clock_ratio"], clocks["memory_clock_ratio"]) == (
        0.98,
        0.62,
        1.0,
    )
    assert clocks["throttle_reasons"] == ["power"]
    assert second["clocks"]["clock_ratio"] == 1.0
    assert second["clocks"]["throttle_reasons_reason"] == "the collector does not tell it of this device"
    found = families(snapshot)
    assert found["jaxobs_device_clock_ratio"] == {("0",): 0.62, ("1",): 1.0}
    assert found["jaxobs_device_utilization_ratio"] == {("0",): 0.98, ("1",): 0.5}
    assert found["jaxobs_device_throttled_info"] == {("0", "power"): 1.0}


def test_what_low_clocks_take_is_an_average_and_advice_where_it_goes_on() -> None:
    fold = measured(observed())
    first, second = fold.snapshot(at(4)).to_dict()["devices"]
    assert first["clocks"]["compute_taken_ratio"] is None
    assert first["clocks"]["compute_taken_ratio_reason"] == "its clocks were not read for long enough"
    for second_now in range(5, 25):
        if second_now == 15:  # it cools down
            fold.apply(Measured(FREQUENCY.name, ("shader", "0"), 2e9, at(15)))
        fold.apply(step(second_now + 20, second_now - 1.0, second_now, runs=(1,) * 25))
        fold.apply(ExecutableRan(1, 0.04, 0.001, at(second_now)))
        document = fold.snapshot(at(second_now)).to_dict()
    first, second = document["devices"]
    assert first["clocks"]["compute_taken_ratio"] == pytest.approx((1 - 0.62 / LOW_CLOCK) * 11 / 21)
    assert first["clocks"]["memory_taken_ratio"] == 0.0
    for name in ("compute_taken_ratio", "memory_taken_ratio"):  # nobody tells why its clocks would be low
        assert second["clocks"][f"{name}_reason"] == "the collector does not tell it of this device"
    (piece,) = [piece for piece in document["advice"] if piece["condition"] == "throttled_device"]
    assert piece["device"] == "0"
    assert (
        "(clock now at 1.00 of its highest) in the last half minute: held down by power" in piece["sentence"]
    )
    share = document["loops"]["train"]["bottleneck"]["shares"]["compute"]
    assert piece["saves_ratio"] == pytest.approx(share * first["clocks"]["compute_taken_ratio"])


def test_a_device_that_only_tells_its_slowdown_loses_that_of_both() -> None:
    assert Reading({"slowdown": 0.55}).taken == pytest.approx((0.5, 0.5))
    assert Reading({"slowdown": 0.0}).taken == (0.0, 0.0)
    assert Reading({"utilization": 0.2, "slowdown": 0.55}).taken == (0.0, 0.0)  # not busy
    assert Reading(LOW, reasons=()).taken == (0.0, None)  # nothing holds it down


def test_what_low_clocks_take_is_not_known_where_nobody_tells_why_they_are_low() -> None:
    assert Reading(LOW | {"memory_clock": 2e9, "memory_clock_limit": 2e9}).taken == (None, None)


@given(st.lists(st.tuples(st.integers(0, 20), st.none() | st.floats(0, 1)), min_size=1, max_size=30))
def test_what_is_taken_lately_lies_within_what_was_taken(readings: list[tuple[int, float | None]]) -> None:
    now, told = at(0), list[tuple[int, Taken]]()
    for ahead, taken in readings:
        now += ahead * SECOND
        told.append((now, (taken, None)))
    known = [taken for _, (taken, _) in told if taken is not None]
    compute, memory = average(told)
    assert memory is None
    if compute is not None:
        assert min(known) - 1e-9 <= compute <= max(known) + 1e-9
    assert now - at(0) >= 15 * SECOND or compute is None


def test_what_is_over_is_gone_from_the_metrics() -> None:
    fold = measured(observed())
    fold.snapshot(at(4))
    applied(
        fold,
        [
            Measured(HELD.name, ("0", "power"), 0.0, at(5)),
            Measured(FREQUENCY.name, ("shader", "0"), 2e9, at(5)),
        ],
    )
    later = families(fold.snapshot(at(6)))
    assert later["jaxobs_device_clock_ratio"]["0",] == 1.0
    assert "jaxobs_device_throttled_info" not in later


def test_without_a_collector_the_clocks_are_absent_with_the_reason() -> None:
    snapshot = observed().snapshot(at(4))
    check(snapshot, {})
    for device in snapshot.to_dict()["devices"]:
        assert device["clocks"] is None
        assert device["clocks_reason"] == "no collector reads this device's clocks"
    assert "jaxobs_device_clock_ratio" not in families(snapshot)
