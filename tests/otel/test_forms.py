"""How metrics go out: information as sums that may fall, hardware by convention."""

from __future__ import annotations

import pytest

from jaxobs.model.metrics import Family, Metric
from jaxobs.plugin.base import Collector
from jaxobs_plugins.collectors.amd import AmdCollector
from jaxobs_plugins.collectors.nvidia.collector import NvidiaCollector
from jaxobs_plugins.collectors.tpu import TpuCollector
from tests.otel.job import Harness, Receiver
from tests.otel.test_content import plain

UUID = "GPU-6f4a1c9e"


@pytest.fixture
def sending(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    return harness


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
