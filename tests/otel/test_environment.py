from __future__ import annotations

import pytest

from jaxobs_plugins.otel.environment import DEFAULT_TIMEOUT, destination, positive_number, sending

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
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "'soon' is no positive number of seconds; 10 is used"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1", "'-1' is no positive number"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "'zstd' is none of none, gzip, deflate; none is used"),
    ],
)
def test_what_cannot_be_used_of_a_request_is_said_and_left_out(variable: str, value: str, says: str) -> None:
    reported: list[str] = []
    found = sending("traces", {**HERE, variable: value}, reported.append)
    assert (found.timeout, found.compression) == (DEFAULT_TIMEOUT, "none")
    (line,) = reported
    assert says in line
