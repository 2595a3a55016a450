"""The catalogue: whatever it takes is shown under names that nothing else has."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from jaxobs.model.metrics import Catalogue, Family, HistogramValue, Kind, Metric, Value, rendered_names
from jaxobs_plugins.prometheus.render import OPENMETRICS, render

STEMS = (
    "acme_disk",
    "acme_disk_bucket",
    "acme_disk_count",
    "acme_disk_sum",
    "acme_disk_created",
    "target",
    "acme_info",
)


def metric(stem: str, kind: Kind) -> Metric:
    buckets = (1.0, 2.0) if kind == "histogram" else ()
    return Metric(f"{stem}_total" if kind == "counter" else stem, kind, "Help.", (), "", buckets)


def value(of: Metric) -> Value:
    return HistogramValue((1, 2, 3), 9.0) if of.kind == "histogram" else 5.0


any_metric = st.builds(metric, st.sampled_from(STEMS), st.sampled_from(["counter", "gauge", "histogram"]))


@given(st.lists(any_metric, max_size=8))
def test_what_is_declared_reaches_a_strict_parser_each_under_its_own_name(wanted: list[Metric]) -> None:
    catalogue = Catalogue()
    for number, each in enumerate(wanted):
        with contextlib.suppress(ValueError):
            catalogue.declare([each], f"plugin{number}")
    families = [Family(each, {(): value(each)}) for each in catalogue]
    text = render(families, {"service.name": "job"}, OPENMETRICS).decode()
    parsed = list(text_string_to_metric_families(text))  # raises where two families clash
    assert len(parsed) == len(families) + 1  # and target_info
    samples = [sample.name for family in parsed for sample in family.samples]
    own = [name for each in catalogue for name in rendered_names(each)]
    assert len(own) == len(set(own))
    assert {name for name in samples if name != "target_info"} <= set(own)


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (metric("acme_disk", "histogram"), metric("acme_disk_bucket", "gauge"), "acme_disk_bucket"),
        (metric("acme_disk", "histogram"), metric("acme_disk_count", "counter"), "acme_disk_count"),
        (metric("acme_disk", "gauge"), metric("acme_disk", "counter"), "acme_disk"),
        (metric("acme_disk", "counter"), metric("acme_disk_created", "gauge"), "acme_disk_created"),
    ],
)
def test_metrics_that_would_share_a_name_on_the_page_are_refused_whoever_comes_first(
    first: Metric, second: Metric, shared: str
) -> None:
    for one, other in ((first, second), (second, first)):
        catalogue = Catalogue([one])
        with pytest.raises(ValueError, match=f"{other.name} and metric {one.name} would both show {shared}"):
            catalogue.declare([metric("acme_sound", "gauge"), other], "plugin")
        assert [each.name for each in catalogue] == [one.name]  # all or none


def test_target_info_is_nobodys() -> None:
    with pytest.raises(ValueError, match="target_info"):
        Catalogue([metric("target_info", "gauge")])


def test_a_metric_belongs_to_whoever_declared_it_first() -> None:
    catalogue = Catalogue([metric("acme_core", "gauge")])
    catalogue.declare([metric("acme_core", "gauge"), metric("acme_own", "gauge")], "collectors:acme")
    assert (catalogue.owner("acme_core"), catalogue.owner("acme_own")) == ("", "collectors:acme")
