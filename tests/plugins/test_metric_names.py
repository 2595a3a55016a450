"""Every metric of a built-in plugin has a name that reads the same in Prometheus and over OTLP."""

from __future__ import annotations

import pytest

from jaxobs.derive.metrics.catalogue import CORE_METRICS
from jaxobs.model.metrics import Metric
from jaxobs.plugin.discovery import COLLECTORS, PROBES, discover
from jaxobs_plugins.otel.names import otlp_name
from tests.otel.prometheus_translation import prometheus_name

METRICS = [
    metric
    for group in (PROBES, COLLECTORS)
    for found in discover(group)
    if found.value.startswith("jaxobs_plugins.")
    for metric in found.plugin.metrics
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_prometheus_translates_it_to_its_catalogue_name(metric: Metric) -> None:
    assert prometheus_name(*otlp_name(metric), metric.kind) == metric.name


def test_no_two_share_a_name_over_otlp() -> None:
    names = [otlp_name(metric)[0] for metric in METRICS]
    assert len(set(names)) == len(names) > 60


def test_no_name_over_otlp_is_a_namespace_as_well() -> None:
    names = {otlp_name(metric)[0] for metric in (*CORE_METRICS, *METRICS)}
    assert not [(name, other) for name in names for other in names if other.startswith(f"{name}.")]


def test_each_says_what_it_is() -> None:
    assert all(len(metric.help) > 10 for metric in METRICS)
