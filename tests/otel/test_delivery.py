"""What arrives at an endpoint, and what happens when it does not."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from jaxobs.model.clock import now
from jaxobs.model.metrics import Family, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.guard import FAILURES_IN_A_ROW, Guard
from jaxobs.plugin.protocol import Batch
from jaxobs_plugins.otel.delivery import MAX_REASON
from tests.otel.job import Harness, Receiver, make_spans
from tests.waiting import wait_for

GAUGES = tuple(
    Family(Metric(f"jaxobs_recorded_{number}", "gauge", "", ("name",)), {("a",): float(number), ("b",): -1.0})
    for number in range(5)
)


@pytest.fixture
def traced(harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch) -> Harness:
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.endpoint}/v1/traces")
    return harness


def test_a_receiver_that_asks_for_time_gets_it(traced: Harness, receiver: Receiver) -> None:
    receiver.answer = lambda path, message: (
        (200, {}, b"") if receiver.requests else (503, {"Retry-After": "2"}, b"")
    )
    traced.start()
    traced.export(make_spans(3))
    wait_for(receiver.spans, "spans")
    first, second = receiver.requests
    assert second.time - first.time >= 2.0
    assert len(receiver.spans()) == 3
    traced.export()
    assert [failure for failure in traced.failures if "HTTP 503" in failure and receiver.endpoint in failure]
    assert traced.agent.dropped("traces") == 0


@pytest.mark.parametrize(("asked", "arrived"), [(1, 2), (30, 0)])
def test_at_the_end_a_receiver_that_asks_for_time_gets_what_is_left(
    traced: Harness, receiver: Receiver, asked: int, arrived: int
) -> None:
    receiver.answer = lambda path, message: (
        (200, {}, b"") if len(receiver.requests) > 0 else (429, {"Retry-After": str(asked)}, b"")
    )
    traced.start()
    traced.export(make_spans(2))
    wait_for(lambda: receiver.requests, "a request")
    assert traced.stop(3.0) < 2.0
    assert len(receiver.spans()) == arrived
    assert traced.agent.dropped("traces") == 2 - arrived


def test_a_refused_request_is_dropped_counted_and_not_repeated(traced: Harness, receiver: Receiver) -> None:
    receiver.answer = lambda path, message: (200, {}, b"") if receiver.requests else (400, {}, b"")
    traced.start()
    traced.export(make_spans(2))
    wait_for(lambda: receiver.requests, "a request")
    traced.export(make_spans(3))
    wait_for(receiver.spans, "spans")
    traced.stop(2.0)
    assert [request.status for request in receiver.requests] == [400, 200]
    assert traced.agent.dropped("traces") == 2
    assert "HTTP 400 Bad Request" in traced.failures[0]
    assert traced.exporter.delivery().undelivered.endswith("2 spans were dropped (HTTP 400 Bad Request)")


def test_spans_that_are_too_many_are_split(traced: Harness, receiver: Receiver) -> None:
    def at_most_two(path: str, message: Any) -> tuple[int, dict[str, str], bytes]:
        spans = message.resource_spans[0].scope_spans[0].spans
        small = len(spans) <= 2 and all(span.name != "span-4" for span in spans)
        return (200 if small else 413), {}, b""

    receiver.answer = at_most_two
    traced.start()
    traced.export(make_spans(7))
    traced.stop(3.0)
    assert sorted(span.name for span in receiver.spans()) == [
        f"span-{number}" for number in (0, 1, 2, 3, 5, 6)
    ]
    assert traced.agent.dropped("traces") == 1


def test_metrics_that_are_too_many_are_split(
    harness: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.endpoint}/v1/metrics")

    def at_most_two(path: str, message: Any) -> tuple[int, dict[str, str], bytes]:
        metrics = message.resource_metrics[0].scope_metrics[0].metrics
        return (200 if sum(len(metric.gauge.data_points) for metric in metrics) <= 2 else 413), {}, b""

    receiver.answer = at_most_two
    harness.start()
    harness.export(families=GAUGES)
    harness.stop(3.0)
    points = sorted(point.as_double for metric in receiver.metrics() for point in metric.gauge.data_points)
    assert points == [-1.0] * 5 + [0.0, 1.0, 2.0, 3.0, 4.0]
    assert harness.agent.dropped("metrics") == 0


@pytest.mark.parametrize("chunked", [False, True])
def test_what_a_receiver_rejects_of_a_request_is_counted(
    traced: Harness, receiver: Receiver, chunked: bool
) -> None:
    told = ExportTracePartialSuccess(rejected_spans=2, error_message="older than a day")
    answer = ExportTraceServiceResponse(partial_success=told)
    body, headers = answer.SerializeToString(), dict[str, str | None]()
    if chunked:
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        headers = {"Content-Length": None, "Transfer-Encoding": "chunked"}
    receiver.answer = lambda path, message: (200, headers, body)
    traced.start()
    traced.export(make_spans(3))
    traced.stop(2.0)
    assert traced.agent.dropped("traces") == 2
    assert traced.exporter.delivery().undelivered.endswith("2 spans were dropped (older than a day)")


def test_a_receivers_long_answer_is_cut_and_shows_no_token(
    traced: Harness, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=open-sesame")
    answer = b"x" * (MAX_REASON - 40) + b" open-sesame is no tenant here" * 99
    receiver.answer = lambda path, message: (401, {"Content-Type": "text/plain"}, answer)
    traced.start()
    traced.export(make_spans(1))
    traced.stop(2.0)
    (failure,) = traced.failures
    assert "HTTP 401 Unauthorized: xxx" in failure
    assert "sesame" not in failure
    assert len(failure) < 2 * MAX_REASON


def test_an_answer_that_is_no_otlp_does_no_harm(traced: Harness, receiver: Receiver) -> None:
    receiver.answer = lambda path, message: (200, {}, b"<html>ok</html>")
    traced.start()
    traced.export(make_spans(3))
    traced.stop(2.0)
    assert len(receiver.spans()) == 3
    assert (traced.failures, traced.agent.dropped("traces")) == ([], 0)


def test_an_endpoint_that_refuses_loses_the_oldest_and_says_so(
    harness: Harness, refusing: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refusing)
    environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    environment.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    harness.start()
    started = now()
    harness.export(make_spans(1000), GAUGES)
    assert now() - started < 1_000_000_000

    def told() -> bool:  # that of metrics may come first
        harness.export()
        return any(f"{refusing}/v1/traces: ConnectionRefusedError" in failure for failure in harness.failures)

    wait_for(told, "the failure of traces")
    assert harness.stop(5.0) < 2.0  # a second attempt at the end, no third
    assert "the end of the job came first, after a failure: ConnectionRefusedError" in harness.failures[-1]
    assert harness.agent.dropped("traces") == 1000
    assert harness.agent.dropped("metrics") == 10


def test_an_endpoint_that_refuses_everything_does_not_get_the_exporter_set_aside(
    traced: Harness, receiver: Receiver
) -> None:
    receiver.answer = lambda path, message: (401, {}, b"")
    guard = Guard("otel", "exporter", traced.agent.log)
    guard.call(traced.exporter.start, traced.agent)

    def has_more(requests: int) -> bool:
        return len(receiver.requests) > requests

    for number in range(2 * FAILURES_IN_A_ROW):
        guard.call(traced.exporter.export, Batch(SnapshotData(now(), {}), (), make_spans(1)))
        wait_for(partial(has_more, number), "the request")
        time.sleep(0.05)
    assert guard.failures >= FAILURES_IN_A_ROW - 1
    assert not guard.set_aside
    assert "HTTP 401 Unauthorized" in traced.agent.lines[0]


def test_a_black_hole_delays_nobody_and_the_end_by_no_more_than_allowed(
    harness: Harness, black_hole: str, receiver: Receiver, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{black_hole}/v1/traces")
    environment.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.endpoint}/v1/metrics")
    harness.start()
    started = time.monotonic()
    for _ in range(20):
        harness.export(make_spans(5), GAUGES)
        time.sleep(0.01)
    assert time.monotonic() - started < 10.0  # a request is given up after ten seconds
    wait_for(receiver.metrics, "metrics")
    harness.export(families=(Family(Metric("jaxobs_last", "gauge", ""), {(): 1.0}),))
    assert harness.stop(1.0) < 5.0
    assert receiver.metrics()[-1].name == "jaxobs.last"
    assert harness.agent.dropped("traces") == 100


def test_a_request_begun_at_the_end_is_over_by_the_deadline(
    harness: Harness, black_hole: str, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{black_hole}/v1/traces")
    environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    harness.start()
    harness.export(make_spans(1))
    assert harness.stop(0.5) < 0.7
    wait_for(
        lambda: not any(thread.name.startswith("jaxobs-otel") for thread in threading.enumerate()),
        "the end of the exporter's threads",
        1,
    )


def test_starting_and_stopping_leaves_no_thread_and_no_connection(
    traced: Harness, receiver: Receiver
) -> None:
    for _ in range(20):
        traced.start()
        traced.export(make_spans(1))
        traced.stop(2.0)
    assert len(receiver.spans()) == 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("jaxobs-otel")]


def test_stop_is_safe_without_start_and_twice(harness: Harness) -> None:
    harness.stop(1.0)
    harness.start()
    harness.stop(1.0)
    harness.stop(1.0)
    harness.export(make_spans(1))
    assert harness.failures == []
