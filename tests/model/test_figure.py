"""Views are written as plain data: a value under its name, and beside it the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, Rows, figure, plain


@dataclass(frozen=True, slots=True)
class Part:
    seconds: Figure[float]


@dataclass(frozen=True, slots=True)
class Whole:
    name: str
    ratio: Figure[float]
    count: Figure[int] = field(metadata=REASON_WHERE_ABSENT)
    part: Figure[Part]
    parts: Mapping[str, Part]
    lines: Sequence[Part]
    recorded: Mapping[str, Figure[float]]


WHOLE = Whole(
    "f",
    Figure(0.5, "a lower bound"),
    Figure(3),
    Figure(Part(Figure(1.0))),
    {"a": Part(Figure(None, "not timed"))},
    (Part(Figure(2.0)),),
    {"loss": Figure(0.1), "norm": Figure(None, "not finite")},
)


def test_a_view_has_each_value_under_its_name_and_the_reason_beside_it() -> None:
    assert plain(WHOLE) == {
        "name": "f",
        "ratio": 0.5,
        "ratio_reason": "a lower bound",
        "count": 3,
        "part": {"seconds": 1.0, "seconds_reason": None},
        "part_reason": None,
        "parts": {"a": {"seconds": None, "seconds_reason": "not timed"}},
        "lines": [{"seconds": 2.0, "seconds_reason": None}],
        "recorded": {"loss": 0.1, "norm": None, "norm_reason": "not finite"},
    }


def test_a_reason_that_stands_only_where_the_value_is_absent_does_so() -> None:
    document = plain(replace(WHOLE, count=Figure(None, "not counted")))
    assert (document["count"], document["count_reason"]) == (None, "not counted")


def test_a_single_figure_is_written_under_any_name() -> None:
    assert Figure(None, "why").under("mfu") == {"mfu": None, "mfu_reason": "why"}


@given(st.none() | st.floats(0, 1), st.text(min_size=1))
def test_a_figure_is_a_value_or_the_reason_why_there_is_none(value: float | None, why: str) -> None:
    made = figure(value, why)
    assert made.value == value
    assert made.reason == (why if value is None else None)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(anything)
def test_plain_data_stays_as_it_is(value: object) -> None:
    assert plain(value) == value
    json.dumps(plain(value))


def test_a_row_that_stays_is_written_once_and_one_that_changes_anew() -> None:
    rows, first, second = Rows(), Part(Figure(1.0)), Part(Figure(2.0))
    before = rows.written([first, second])
    after = rows.written([second, replace(first)])
    assert after[0] is before[1]
    assert after[1] == before[0]
    assert after[1] is not before[0]  # older snapshots have theirs


def test_a_reason_that_is_told_where_the_value_is_absent_is_no_reserve() -> None:
    reserved = plain(replace(WHOLE, count=Figure(3, "a reserve")))
    assert "count_reason" not in reserved
    assert plain(replace(WHOLE, count=Figure(None, "not counted")))["count_reason"] == "not counted"
