"""A device's time in parts of a trace, against a walk through every unit of time."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.intervals import joined
from jaxobs.model.trace import Kind
from jaxobs.trace.attribution import PICOSECONDS, gap_seconds, stretch_time

KINDS: tuple[Kind, ...] = ("compute", "collective", "control")
UNIT = round(PICOSECONDS)
spans = st.tuples(st.integers(0, 30), st.integers(0, 10)).map(lambda drawn: (drawn[0], drawn[0] + drawn[1]))
intervals = st.lists(st.tuples(spans, st.integers(0, 2)).map(lambda drawn: (*drawn[0], drawn[1])), max_size=8)
runs_of_one = st.lists(spans.map(lambda span: (*span, None)), max_size=4)


def scaled(parts):
    return [(start * UNIT, end * UNIT, *rest) for start, end, *rest in parts]


def runs_at(moment, parts):
    return any(start <= moment < end for start, end, *_ in parts)


@given(st.lists(spans, max_size=6), intervals, runs_of_one)
def test_it_is_what_a_walk_through_every_moment_finds(parts, operations, runs):
    found = stretch_time(parts, scaled(operations), scaled(runs), KINDS, [0, 1, 2])
    inside = [moment for moment in range(50) if runs_at(moment, parts)]
    busy = [moment for moment in inside if runs_at(moment, operations)]
    gaps = [moment for moment in inside if runs_at(moment, runs) and not runs_at(moment, operations)]
    collectives = [one for one in operations if one[2] == 1]
    assert found.seconds == len(inside)
    assert found.busy_seconds == pytest.approx(len(busy))
    assert found.gap_seconds == pytest.approx(len(gaps))
    assert found.collective_seconds == sum(runs_at(moment, collectives) for moment in inside)
    assert sum(found.charged_seconds) == pytest.approx(found.busy_seconds)


@given(intervals, runs_of_one)
def test_a_gap_is_no_busy_time_and_lies_in_a_run(operations, runs):
    gaps = gap_seconds(scaled(operations), scaled(runs))
    assert gaps == sum(runs_at(at, runs) and not runs_at(at, operations) for at in range(50))


@given(st.lists(spans))
def test_joined_spans_are_apart_and_cover_the_same(parts):
    found = joined(parts)
    assert all(end < start for (_, end), (start, _) in pairwise(found))
    assert all(runs_at(moment, parts) == runs_at(moment, found) for moment in range(50))
