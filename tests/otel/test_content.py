"""What spans and metrics look like on the wire, and which variables are honoured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from jaxobs.model.clock import now
from jaxobs.model.events import Span, SpanContext
from jaxobs.model.metrics import Exemplar, Family, HistogramValue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from tests.otel.job import Harness, Receiver, make_span, make_spans
from tests.waiting import wait_for


@pytest.fixture
def sending(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
    return harness


def plain(attributes: Any) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in attributes}


def test_a_span_keeps_its_ids_parent_times_and_attributes(sending: Harness, receiver: Receiver) -> None:
    clock = sending.agent.clock
    span = Span(
        "jax.compile",
        trace_id=0x0123456789ABCDEF0123456789ABCDEF,
        span_id=0xFEDCBA9876543210,
        parent=SpanContext(0x0123456789ABCDEF0123456789ABCDEF, 0x77, 1),
        start=clock.monotonic + 5,
        end=clock.monotonic + 2_000_000_005,
        attributes=(("a", "x\ud800"), ("b", 2), ("c", 0.5), ("d", True), ("e", 2**70)),
    )
    sending.start()
    sending.export((span,))
    sending.stop(2.0)
    (sent,) = receiver.spans()
    assert (sent.name, sent.trace_id.hex()) == ("jax.compile", "0123456789abcdef0123456789abcdef")
    assert (sent.span_id.hex(), sent.parent_span_id.hex()) == ("fedcba9876543210", "0000000000000077")
    assert sent.start_time_unix_nano == clock.wall + 5
    assert sent.end_time_unix_nano - sent.start_time_unix_nano == 2_000_000_000
    assert plain(sent.attributes) == {"a": "x?", "b": 2, "c": 0.5, "d": True, "e": str(2**70)}


@pytest.mark.parametrize(("failed", "status"), [(True, "STATUS_CODE_ERROR"), (False, "STATUS_CODE_UNSET")])
def test_the_status_of_a_step_that_raised_is_an_error(
    sending: Harness, receiver: Receiver, failed: bool, status: str
) -> None:
    sending.start()
    sending.export((replace(make_span(0), attributes=(("jax.step.failed", failed),)),))
    sending.stop(2.0)
    (span,) = receiver.spans()
    assert Status.StatusCode.Name(span.status.code) == status


def test_a_child_of_what_the_application_did_not_sample_is_left_out(
    sending: Harness, receiver: Receiver
) -> None:
    sending.start()
    sending.export(
        (make_span(0), make_span(1, SpanContext(0xABC, 9, 0)), make_span(2, SpanContext(0xABC, 9, 1)))
    )
    sending.stop(2.0)
    assert [span.name for span in receiver.spans()] == ["span-0", "span-2"]
    assert sending.agent.dropped("traces") == 0


def test_the_resource_is_that_of_the_agent(sending: Harness, receiver: Receiver) -> None:
    sending.agent.resource = {**sending.agent.resource, "team": "a", "host.name": "node1"}
    sending.start()
    sending.export((make_span(0),))
    sending.stop(2.0)
    (group,) = receiver.accepted("/v1/traces")[0].message.resource_spans
    assert plain(group.resource.attributes) == {
        "service.name": "job",
        "team": "a",
        "host.name": "node1",
        "process.pid": 41,
    }
    assert group.scope_spans[0].scope.name == "jaxobs"


def test_metrics_are_cumulative_sums_gauges_and_histograms_with_exemplars(
    sending: Harness, receiver: Receiver
) -> None:
    exemplar = Exemplar(trace_id="ab" * 16, span_id="cd" * 8, value=0.7, wall_time=1_700_000_000.5)
    families = (
        Family(Metric("jaxobs_steps_total", "counter", "Steps.", ("loop",)), {("train",): 12.0}),
        Family(Metric("jaxobs_mfu_ratio", "gauge", "", ("loop",), "ratio"), {("train",): 0.4}),
        Family(
            Metric("jaxobs_step_seconds", "histogram", "", ("loop",), "seconds", (0.5, 1.0)),
            {("train",): HistogramValue((3, 2, 1), 4.5, (None, exemplar, None))},
        ),
        Family(Metric("jaxobs_absent", "gauge", ""), {}),
    )
    sending.start()
    sending.export(families=families)
    sending.stop(2.0)
    steps, mfu, seconds = receiver.metrics()
    assert (steps.name, steps.description, steps.unit) == ("jaxobs.steps", "Steps.", "")
    assert steps.sum.is_monotonic
    assert steps.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = steps.sum.data_points
    assert (plain(point.attributes), point.as_double) == ({"loop": "train"}, 12.0)
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano
    assert (mfu.name, mfu.unit, mfu.gauge.data_points[0].as_double) == ("jaxobs.mfu", "1", 0.4)
    assert (seconds.name, seconds.unit) == ("jaxobs.step", "s")
    (point,) = seconds.histogram.data_points
    assert (list(point.bucket_counts), list(point.explicit_bounds)) == ([3, 2, 1], [0.5, 1.0])
    assert (point.count, point.sum) == (6, 4.5)
    assert not point.HasField("min")
    (kept,) = point.exemplars
    assert (kept.trace_id.hex(), kept.span_id.hex(), kept.as_double) == ("ab" * 16, "cd" * 8, 0.7)
    assert kept.time_unix_nano == 1_700_000_000_500_000_000


def test_sums_count_from_when_this_agent_started(sending: Harness, receiver: Receiver) -> None:
    family = Family(Metric("jaxobs_steps_total", "counter", ""), {(): 1.0})

    def has_metrics(count: int) -> bool:
        return len(receiver.metrics()) == count

    for restarts in range(2):
        sending.start()
        for number in range(2):
            sending.export(families=(family,))
            wait_for(partial(has_metrics, 2 * restarts + number + 1), "the metric")
        sending.stop(2.0)
    starts = [metric.sum.data_points[0].start_time_unix_nano for metric in receiver.metrics()]
    assert starts[0] == starts[1] < starts[2] == starts[3]


def test_sums_count_from_the_beginning_of_the_process(sending: Harness, receiver: Receiver) -> None:
    family = Family(Metric("jaxobs_process_cpu_seconds_total", "counter", "", (), "seconds"), {(): 60.0})
    sending.start()
    process = {"seconds": 90.0, "counts_begin_seconds": None}
    snapshot = SnapshotData(now(), {"process": process}, (family,))
    sending.exporter.export(Batch(snapshot, (), ()))
    sending.stop(2.0)
    (point,) = receiver.metrics()[0].sum.data_points
    assert point.time_unix_nano - point.start_time_unix_nano == pytest.approx(90e9)


def test_headers_and_compression_of_the_user_are_used(
    sending: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    environment.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    sending.start()
    sending.export(make_spans(2))
    sending.stop(2.0)
    (request,) = receiver.accepted("/v1/traces")
    assert request.headers["authorization"] == "Bearer abc"
    assert request.headers["content-encoding"] == "gzip"
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["user-agent"].startswith("jaxobs/")
    assert len(receiver.spans()) == 2


def test_the_users_header_is_sent_and_not_what_the_netrc_file_has(
    sending: Harness, receiver: Receiver, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login user password another\n")
    environment.setenv("NETRC", str(netrc))
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
    sending.start()
    sending.export(make_spans(1))
    wait_for(receiver.spans, "spans")
    assert receiver.accepted("/v1/traces")[0].headers["authorization"] == "Bearer abc"


def test_one_signal_in_a_protocol_that_is_not_spoken_is_said_and_the_other_sent(
    sending: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
    sending.start()
    sending.export(make_spans(1), (Family(Metric("jaxobs_a", "gauge", ""), {(): 1.0}),))
    sending.stop(2.0)
    assert len(receiver.spans()) == 1
    assert receiver.metrics() == []
    (line,) = sending.agent.lines
    assert "metrics are not sent" in line
    assert "'grpc'" in line


def test_what_is_asked_of_a_variable_and_not_done_is_said_once(
    sending: Harness, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    environment.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    sending.start()
    sampler, temporality = sending.agent.lines
    assert (
        "OTEL_TRACES_SAMPLER is none of always_on, parentbased_always_on, always_off; always_on is" in sampler
    )
    assert "OTLP_METRICS_TEMPORALITY_PREFERENCE is none of cumulative; cumulative is used" in temporality


@pytest.mark.parametrize(("signal", "sends"), [("TRACES", True), ("METRICS", False)])
def test_it_says_whether_it_sends_spans(
    harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch, signal: str, sends: bool
) -> None:
    environment.setenv(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT", f"{receiver.endpoint}/v1/{signal.lower()}")
    harness.start()
    assert harness.exporter.sends_spans == sends


def test_an_endpoint_that_cannot_be_used_at_all_sets_the_exporter_aside(
    harness: Harness, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")
    with pytest.raises(ValueError, match="must be a URL such as http://localhost:4318"):
        harness.start()
