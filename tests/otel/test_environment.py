from __future__ import annotations

import pytest

from jaxobs_plugins.otel.environment import destination, positive_number

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
