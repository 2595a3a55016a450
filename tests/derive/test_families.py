"""Families of a snapshot stay as they were, whatever is folded later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.series import Histogram
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Family, HistogramValue, Metric
from tests.derive.made_up import PLUGIN_COUNTER, PLUGIN_GAUGE, PLUGIN_HISTOGRAM, at, new_fold

METRICS = (PLUGIN_COUNTER, PLUGIN_GAUGE, PLUGIN_HISTOGRAM)


def shown(families: tuple[Family, ...]) -> list[float]:
    """The counter, the gauge, and the histogram's sum."""
    found = {family.metric: family.series[("a",)] for family in families if family.metric in METRICS}
    values = [found[metric] for metric in METRICS]
    return [value.sum if isinstance(value, HistogramValue) else value for value in values]


def test_what_is_folded_later_does_not_reach_a_snapshot() -> None:
    fold = new_fold()
    taken = []
    for second in (1, 2):
        for metric in METRICS:
            fold.apply(Measured(metric.name, ("a",), 0.5 * second, at(second)))
        taken.append(fold.snapshot(at(second)).families)
    assert [shown(families) for families in taken] == [[0.5, 0.5, 0.5], [1.5, 1.0, 1.5]]


@pytest.mark.parametrize("metric", METRICS)
def test_a_family_that_did_not_change_is_shared_by_snapshots(metric: Metric) -> None:
    fold = new_fold()
    fold.apply(Measured(metric.name, ("a",), 0.5, at(1)))
    taken = [fold.snapshot(at(second)).families for second in (1, 2)]
    first, second = (next(family for family in families if family.metric is metric) for families in taken)
    assert first is second


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_a_histogram_counts_many_values_at_once_as_one_by_one(values: list[float]) -> None:
    at_once, one_by_one = Histogram((0.1, 1.0, 1e6)), Histogram((0.1, 1.0, 1e6))
    at_once.observe_all(values)
    for value in values:
        one_by_one.observe(value)
    assert at_once.value().counts == one_by_one.value().counts
    assert at_once.value().sum == pytest.approx(one_by_one.value().sum)
