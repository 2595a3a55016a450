"""How metrics go out: information as sums that may fall, histograms of two kinds, hardware by convention."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.series import Histogram
from jaxobs.model.metrics import SCALE, Family, HistogramValue, Metric, bucket_index
from jaxobs.plugin.base import Collector
from jaxobs_plugins.collectors.amd import AmdCollector
from jaxobs_plugins.collectors.nvidia import NvidiaCollector
from jaxobs_plugins.collectors.tpu import TpuCollector
from jaxobs_plugins.otel.encoding import AGGREGATION, EXPONENTIAL
from tests.otel.job import Harness, Receiver
from tests.otel.test_content import plain

WAITS = Metric("example_wait_seconds", "histogram", "Waits.", ("kind",), "seconds", (0.1, 1.0))
UUID = "GPU-6f4a1c9e"


@pytest.fixture
def sending(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    return harness


def observed(values: list[float]) -> HistogramValue:
    histogram = Histogram(WAITS.buckets)
    histogram.observe_all(values)
    return histogram.value()


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_both_kinds_of_buckets_hold_every_observation(values: list[float]) -> None:
    value = observed(values)
    assert sum(value.exponential.values()) + value.zeros == value.count == len(values)
    assert value.zeros == values.count(0)


@given(st.floats(1e-8, 1e8))
def test_a_value_lies_between_the_bounds_of_its_bucket(value: float) -> None:
    index = bucket_index(value)
    below, above = (math.log2(value) * 2**SCALE - bound for bound in (index, index + 1))
    assert below > -1e-9
    assert above < 1e-9


def test_bounds_belong_to_the_bucket_below_them() -> None:
    assert [bucket_index(2.0**power) for power in range(3)] == [-1, 7, 15]
    assert bucket_index(2.0**0.125 * 1.000001) == 1
    assert bucket_index(5e-324) < bucket_index(1e-8) < bucket_index(1.7e308)


def test_histograms_are_exponential_where_the_users_variable_asks_for_it(
    sending: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv(AGGREGATION, EXPONENTIAL)
    values = [0.0, 0.25, 0.3, 0.3, 2.5]
    sending.start()
    sending.export(families=(Family(WAITS, {("a",): observed(values)}),))
    sending.stop(2.0)
    (metric,) = receiver.metrics()
    (point,) = metric.exponential_histogram.data_points
    assert (point.count, point.sum, point.scale, point.zero_count) == (5, pytest.approx(3.35), SCALE, 1)
    counts = {
        point.positive.offset + place: count
        for place, count in enumerate(point.positive.bucket_counts)
        if count
    }
    assert counts == {bucket_index(0.25): 1, bucket_index(0.3): 2, bucket_index(2.5): 1}
    assert not point.HasField("min")


def test_information_is_a_sum_that_may_fall(sending: Harness, receiver: Receiver) -> None:
    info = Metric("jaxobs_run_info", "gauge", "", ("run",))
    sending.start()
    sending.export(families=(Family(info, {("night",): 1.0}),))
    sending.stop(2.0)
    (metric,) = receiver.metrics()
    assert (metric.name, metric.unit, metric.sum.is_monotonic) == ("jaxobs.run_info", "", False)
    (point,) = metric.sum.data_points
    assert (plain(point.attributes), point.as_double) == ({"run": "night"}, 1.0)


def test_what_nvml_says_goes_out_under_the_conventions_names_too(
    sending: Harness, receiver: Receiver
) -> None:
    more = {"jaxobs_nvidia_temperature_celsius": "memory", "jaxobs_nvidia_ecc_errors_total": "corrected"}
    declared = {metric.name: metric for metric in NvidiaCollector.metrics if metric.hardware is not None}
    families = tuple(
        Family(metric, {("0", UUID, *filter(None, [more.get(name)])): 3.0})
        for name, metric in sorted(declared.items())
    )
    sending.start()
    sending.export(families=families)
    sending.stop(2.0)
    by_name = {metric.name: metric for metric in receiver.metrics() if metric.name.startswith("hw.")}
    assert set(by_name) == {metric.hardware.name for metric in declared.values() if metric.hardware}
    assert len(by_name) == 8
    points = {
        name: [plain(point.attributes) for point in getattr(metric, metric.WhichOneof("data")).data_points]
        for name, metric in by_name.items()
    }
    assert points["hw.gpu.utilization"] == [{"hw.id": UUID}]
    assert points["hw.temperature"] == [{"hw.id": UUID, "hw.type": "gpu", "hw.sensor_location": "memory"}]
    assert [attributes["error.type"] for attributes in points["hw.errors"]] == ["corrected", "xid"]
    assert not by_name["hw.gpu.memory.usage"].sum.is_monotonic
    assert by_name["hw.energy"].sum.is_monotonic
    assert by_name["hw.power"].gauge.data_points
    assert {name for metric in receiver.metrics() for name in [metric.name]} > set(by_name), "and our own"


def test_a_device_without_a_uuid_is_not_given_one(sending: Harness, receiver: Receiver) -> None:
    power = next(metric for metric in NvidiaCollector.metrics if metric.name == "jaxobs_nvidia_power_watts")
    sending.start()
    sending.export(families=(Family(power, {("0", ""): 3.0}),))
    sending.stop(2.0)
    assert [metric.name for metric in receiver.metrics()] == ["jaxobs.nvidia.power"]


@pytest.mark.parametrize(
    ("collector", "labels", "names"),
    [
        (AmdCollector, ("0", UUID), {"hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.gpu.utilization"}),
        (TpuCollector, ("0", UUID), {"hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.gpu.utilization"}),
    ],
)
def test_so_does_what_other_vendors_say(
    sending: Harness, receiver: Receiver, collector: type[Collector], labels: tuple[str, ...], names: set[str]
) -> None:
    declared = [
        metric for metric in collector.metrics if metric.hardware and len(metric.labels) == len(labels)
    ]
    sending.start()
    sending.export(families=tuple(Family(metric, {labels: 3.0}) for metric in declared))
    sending.stop(2.0)
    found = {metric.name: metric for metric in receiver.metrics() if metric.name.startswith("hw.")}
    assert set(found) >= names
    (point,) = found["hw.gpu.utilization"].gauge.data_points
    assert plain(point.attributes) == {"hw.id": UUID}


def test_exponential_bounds_follow_each_other() -> None:
    indices = [bucket_index(2 ** (number / 16)) for number in range(-300, 300)]
    assert all(0 <= after - before <= 1 for before, after in pairwise(indices))
