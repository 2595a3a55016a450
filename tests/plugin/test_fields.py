"""Reading field by field: failures stay with their own metrics, counters grow, gauges go when they are not known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.metrics import Metric
from jaxobs.plugin.fields import RETRY_SECONDS, UNSUPPORTED_RETRY_SECONDS, Fields, Query

GAUGE = Metric("test_gauge", "gauge", "")
OTHER = Metric("test_other", "gauge", "", ("part",))
COUNTER = Metric("test_counter_total", "counter", "")


class Source:
    """Answers by name; an exception as an answer is raised."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, name: str) -> Any:
        self.asked.append(name)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


def query(metric: Metric, name: str, *labels: str) -> Query[Source]:
    return Query((metric,), lambda source: [(metric, labels, source.ask(name))])


def values(fields: Fields[Source], source: Source) -> dict[str, float]:
    return {value.metric: value.value for value in fields.collect(source)}


def test_one_that_fails_leaves_the_others() -> None:
    source = Source(gauge=ValueError("broken"), other=2.0)
    fields = Fields([query(GAUGE, "gauge"), query(OTHER, "other", "x")], ("host",))
    (measured,) = fields.collect(source)
    assert (measured.metric, measured.labels, measured.value) == ("test_other", ("host", "x"), 2.0)


@pytest.mark.parametrize(
    ("error", "asked_at"),
    [
        (NotImplementedError(), [0.0, UNSUPPORTED_RETRY_SECONDS]),
        (OSError(), [RETRY_SECONDS * number for number in range(21)]),
    ],
)
def test_a_failure_is_asked_again_later(error: Exception, asked_at: list[float]) -> None:
    at = 0.0
    fields = Fields([query(GAUGE, "gauge")], clock=lambda: at)
    source = Source(gauge=error)
    seen = []
    while at <= UNSUPPORTED_RETRY_SECONDS:
        before = len(source.asked)
        fields.collect(source)
        if len(source.asked) > before:
            seen.append(at)
        at += 1.0
    assert seen == asked_at


def test_a_source_that_answers_again_is_asked_every_time() -> None:
    at = 0.0
    fields = Fields([query(GAUGE, "gauge")], clock=lambda: at)
    source = Source(gauge=OSError())
    fields.collect(source)
    source.answers["gauge"] = 5.0
    at = RETRY_SECONDS
    assert values(fields, source) == {"test_gauge": 5.0}
    assert values(fields, source) == {"test_gauge": 5.0}


@pytest.mark.parametrize("unknown", [None, OSError()])
def test_a_gauge_is_taken_away_once_when_it_is_no_longer_known(unknown: Any) -> None:
    fields = Fields([query(GAUGE, "gauge")])
    source = Source(gauge=1.0)
    fields.collect(source)
    source.answers["gauge"] = unknown
    assert math.isnan(values(fields, source)["test_gauge"])
    assert fields.collect(source) == []
    assert fields.withdraw() == []


def test_errors_that_concern_the_whole_subject_are_passed_on() -> None:
    fields = Fields([query(GAUGE, "gauge"), query(OTHER, "other", "x")], passed_on=(KeyError,))
    source = Source(gauge=1.0, other=2.0)
    fields.collect(source)
    source.answers["other"] = KeyError("gone")
    with pytest.raises(KeyError):
        fields.collect(source)
    assert {value.metric for value in fields.withdraw() if math.isnan(value.value)} == {
        "test_gauge",
        "test_other",
    }


@pytest.mark.parametrize(("whole", "expected"), [((COUNTER,), 70.0), ((), 0.0)])
def test_a_counters_first_total_counts_where_it_belongs_to_the_job(
    whole: tuple[Metric, ...], expected: float
) -> None:
    fields = Fields([query(COUNTER, "total")], whole=whole)
    assert values(fields, Source(total=70.0)) == {"test_counter_total": expected}


@given(st.lists(st.integers(0, 2**53), min_size=1))
def test_a_counter_never_falls_and_tells_all_growth(totals: list[int]) -> None:
    fields = Fields([query(COUNTER, "total")])
    told = [values(fields, Source(total=float(total)))["test_counter_total"] for total in totals]
    assert told[0] == 0.0
    assert told[1:] == [max(0.0, after - before) for before, after in itertools.pairwise(totals)]


def test_growth_over_a_failure_is_told_afterwards() -> None:
    at = 0.0
    clock: Callable[[], float] = lambda: at  # noqa: E731  # reads the local name as it changes
    fields = Fields([query(COUNTER, "total")], clock=clock)
    source = Source(total=10.0)
    fields.collect(source)
    source.answers["total"] = OSError()
    assert fields.collect(source) == []
    source.answers["total"] = 25.0
    at = RETRY_SECONDS
    assert values(fields, source) == {"test_counter_total": 15.0}
