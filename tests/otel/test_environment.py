from __future__ import annotations

import logging
import socket
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from jaxobs_plugins.otel.delivery import Connection
from jaxobs_plugins.otel.environment import DEFAULT_TIMEOUT, destination, positive_number, sending
from jaxobs_plugins.otel.exporter import OpenTelemetryExporter

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None),
        (HERE, "http://collector:4318/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}, None),
        ({**HERE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://else:1/x"}, "https://else:1/x"),
        ({**HERE, "OTEL_SDK_DISABLED": "True"}, None),
        ({**HERE, "OTEL_SDK_DISABLED": "false"}, "http://collector:4318/v1/traces"),
        ({**HERE, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**HERE, "OTEL_TRACES_EXPORTER": "console"}, None),
        ({**HERE, "OTEL_TRACES_SAMPLER": "always_off"}, None),
        (
            {**HERE, "OTEL_TRACES_EXPORTER": "otlp_proto_http", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http://collector:4318/v1/traces",
        ),
        ({**HERE, "OTEL_TRACES_EXPORTER": "console, otlp"}, "http://collector:4318/v1/traces"),
        ({**HERE, "OTEL_METRICS_EXPORTER": "none"}, "http://collector:4318/v1/traces"),
        ({**HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "http://collector:4318/v1/traces"),
        (
            {
                **HERE,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            "http://collector:4318/v1/traces",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://user:secret@[::1]:9/p?key=1"},
            "https://[::1]:9/p/v1/traces",
        ),
    ],
)
def test_a_signal_goes_where_the_variables_say(variables: dict[str, str], endpoint: str | None) -> None:
    found = destination("traces", variables)
    assert (found.endpoint, found.problem) == (endpoint, "")


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({**HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "'grpc'"),
        ({**HERE, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "'http/json'"),
        ({**HERE, "OTEL_TRACES_EXPORTER": "otlp_proto_grpc"}, "'grpc'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT must be a URL"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be"),
    ],
)
def test_what_cannot_be_done_is_said(variables: dict[str, str], says: str) -> None:
    found = destination("traces", variables)
    assert found.endpoint is None
    assert says in found.problem


@pytest.mark.parametrize(("text", "number", "reports"), [("", 5, 0), ("7", 7, 0), ("x", 5, 1), ("-1", 5, 1)])
def test_a_number_that_is_none_is_reported(text: str, number: int, reports: int) -> None:
    reported: list[str] = []
    assert positive_number("OTEL_N", 5, {"OTEL_N": text}, reported.append) == number
    assert len(reported) == reports


@pytest.mark.parametrize("text", [str(2**63 - 1), "9" * 20])
def test_a_number_that_no_thread_can_wait_for_is_the_largest_that_one_can(text: str) -> None:
    never = threading.Event()
    never.set()
    for default, seconds in ((5, 0.001), (5.0, 1.0)):
        number = positive_number("OTEL_N", default, {"OTEL_N": text}, pytest.fail)
        assert never.wait(number * seconds)
        with socket.socket() as waiting:
            waiting.settimeout(number * seconds)


@pytest.mark.parametrize(
    ("variables", "url", "timeout", "compression"),
    [
        ({}, "http://collector:4318/v1/metrics", DEFAULT_TIMEOUT, "none"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "2.5"}, "http://collector:4318/v1/metrics", 2.5, "none"),
        (
            {
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://user:secret@else/x",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
                "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT": "3",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "none",
                "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "GZip",
            },
            "https://user:secret@else/x",
            3.0,
            "gzip",
        ),
    ],
)
def test_requests_are_made_as_the_variables_say(
    variables: dict[str, str], url: str, timeout: float, compression: str
) -> None:
    reported: list[str] = []
    found = sending("metrics", {**HERE, **variables}, reported.append)
    assert (found.url, found.timeout, found.compression, reported) == (url, timeout, compression, [])


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "soon",
            "OTEL_EXPORTER_OTLP_TIMEOUT is no positive number of seconds; 10 is used",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1", "TIMEOUT is no positive number"),
    ],
)
def test_what_cannot_be_used_of_a_request_is_said_and_left_out(variable: str, value: str, says: str) -> None:
    reported: list[str] = []
    found = sending("traces", {**HERE, variable: value}, reported.append)
    assert (found.timeout, found.compression) == (DEFAULT_TIMEOUT, "none")
    (line,) = reported
    assert says in line


def test_headers_are_read_as_the_specification_has_them() -> None:
    reported: list[str] = []
    text = "authorization=Bearer%20abc==, X-Team = a b ,,empty"
    found = sending("traces", {**HERE, "OTEL_EXPORTER_OTLP_HEADERS": text}, reported.append)
    assert (found.headers["authorization"], found.headers["x-team"]) == ("Bearer abc==", "a b")
    assert reported == [
        "entry 3 of OTEL_EXPORTER_OTLP_HEADERS is no `name=value` of a header; it is not sent"
    ]


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_HEADERS": f"Authorization: Bearer {SECRET}"},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={SECRET}%0d%0aevil: 1"},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key=\u2028{SECRET}, {SECRET}"},
        {"OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={SECRET}", "OTEL_EXPORTER_OTLP_TIMEOUT": SECRET},
        {"OTEL_EXPORTER_OTLP_COMPRESSION": SECRET, "OTEL_BSP_SCHEDULE_DELAY": SECRET},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": SECRET},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@[::1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:1/{SECRET}@127.0.0.1:1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@127.0.0.1:1/?key={SECRET}"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://user:{SECRET}@no host:1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{SECRET}@*.invalid"},
        {"HTTP_PROXY": f"http://user:{SECRET}@127.0.0.1:1"},
        {"HTTP_PROXY": f"http://user:{SECRET}@[bad"},
        {"HTTP_PROXY": f"nonsense://user:{SECRET}@"},
    ],
)
def test_no_secret_is_in_what_is_said(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor in what the libraries below log, as the SDK does with a header that it cannot read."""
    caplog.set_level(logging.INFO)
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"} | variables
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    found = destination("traces", variables)
    said += [found.problem, str(found.endpoint)]
    positive_number("OTEL_BSP_SCHEDULE_DELAY", 5, variables, said.append)
    if found.endpoint is not None:
        connection = Connection(sending("traces", variables, said.append))
        said.append(connection.post(ExportTraceServiceRequest(), None)[0].reason)
        connection.close()
    assert SECRET not in "".join([*said, caplog.text])


def test_an_endpoint_whose_host_can_have_no_such_name_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector..local:4318/v1/traces")
    (remark,) = OpenTelemetryExporter().check({})
    assert remark.problem
    assert remark.text.startswith(
        "traces cannot be sent to http://collector..local:4318/v1/traces: no host has"
    )
    assert "change OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" in remark.text
