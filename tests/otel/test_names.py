from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.metrics import Kind, Metric
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover
from jaxobs_plugins.otel.encoding import otlp_name
from tests.otel.prometheus_translation import prometheus_name

METRICS = (
    *CORE_METRICS,
    *(
        metric
        for group in (PROBES, COLLECTORS, EXPORTERS)
        for found in discover(group)
        if found.value.startswith("jaxobs_plugins.")
        for metric in found.plugin.metrics
    ),
)
"""The core's, and those of the built-in plugins."""


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [  # the examples in the documentation of prometheus/otlptranslator
        ("http.server.duration", "s", "histogram", "http_server_duration_seconds"),
        ("requests.count", "1", "counter", "requests_count_total"),
        ("memory.usage", "By", "gauge", "memory_usage_bytes"),
        ("http.server.request.duration", "s", "histogram", "http_server_request_duration_seconds"),
        ("network.speed", "By/s", "gauge", "network_speed_bytes_per_second"),
        ("queue.share", "1", "gauge", "queue_share_ratio"),
        ("requests", "{request}/s", "gauge", "requests_per_second"),
        ("requests", "{request}", "counter", "requests_total"),
    ],
)
def test_the_translation_under_test_is_that_of_prometheus(
    name: str, unit: str, kind: str, expected: str
) -> None:
    assert prometheus_name(name, unit, kind) == expected


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_prometheus_translates_every_metric_to_its_catalogue_name(metric: Metric) -> None:
    assert prometheus_name(*otlp_name(metric), metric.kind) == metric.name


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_dotted_and_carry_no_unit_in_seconds_or_as_a_ratio(metric: Metric) -> None:
    name, unit = otlp_name(metric)
    assert name.startswith("jaxobs.")
    assert re.fullmatch(r"[a-z]+(\.[a-z0-9]+(_[a-z0-9]+)*)+", name)
    if unit in {"s", "1"}:
        assert not {"seconds", "ratio"} & set(re.split(r"[._]", name))


def test_no_two_instruments_share_a_name_and_no_name_is_a_namespace_as_well() -> None:
    names = {otlp_name(metric)[0] for metric in METRICS}
    assert len(names) == len(METRICS) > 120
    assert not [(name, other) for name in names for other in names if other.startswith(f"{name}.")]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (Metric("jaxobs_step_seconds", "histogram", "", (), "seconds", (1.0,)), ("jaxobs.step", "s")),
        (Metric("jaxobs_bytes_total", "counter", "", (), "bytes"), ("jaxobs.bytes", "By")),
        (Metric("jaxobs_a_memory_bytes", "gauge", "", (), "bytes"), ("jaxobs.a_memory", "By")),
        (
            Metric("jaxobs_step_host_seconds", "histogram", "", (), "seconds", (1.0,)),
            ("jaxobs.step_host", "s"),
        ),
        (
            Metric("jaxobs_nvidia_power_limit_watts", "gauge", "", (), "watts"),
            ("jaxobs.nvidia.power_limit", "W"),
        ),
        (Metric("jaxobs_mfu_ratio", "gauge", "", (), "ratio"), ("jaxobs.mfu", "1")),
        (
            Metric("jaxobs_peak_flops_per_second", "gauge", "", (), "flops_per_second"),
            ("jaxobs.peak_flops", "{flop}/s"),
        ),
        (
            Metric("jaxobs_x_flops_per_byte", "gauge", "", (), "flops_per_byte"),
            ("jaxobs.x_flops_per_byte", "{flops_per_byte}"),
        ),
    ],
)
def test_the_rule_by_example(metric: Metric, expected: tuple[str, str]) -> None:
    assert otlp_name(metric) == expected


UNITS = [
    "seconds",
    "bytes",
    "ratio",
    "flops",
    "flops_per_second",
    "bytes_per_second",
    "flops_per_byte",
    "watts",
]
KINDS: tuple[Kind, ...] = ("counter", "gauge", "histogram")
WORDS = st.sampled_from(["a", "step", "memory", "per", "second", "info", *UNITS])


@given(
    words=st.lists(WORDS, min_size=0, max_size=4),
    unit=st.sampled_from(["", *UNITS, "requests", "requests_per_second", "joules"]),
    kind=st.sampled_from(KINDS),
)
def test_any_plugins_metric_gets_its_name_back(words: list[str], unit: str, kind: Kind) -> None:
    name = "_".join(["acme", *words, *([unit] if unit else [])]) + ("_total" if kind == "counter" else "")
    metric = Metric(name, kind, "", (), unit, (1.0,) if kind == "histogram" else ())
    assert prometheus_name(*otlp_name(metric), metric.kind) == metric.name
