from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.noise import ratio, shift

VALUES = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30)


@given(VALUES)
def test_a_sample_is_not_shifted_against_itself(values: list[float]) -> None:
    change = shift(values, values)
    assert change is None or (change.estimate == pytest.approx(0) and not change.beyond(0.0))


@given(VALUES, VALUES)
def test_exchanging_the_two_turns_the_shift_round(one: list[float], other: list[float]) -> None:
    there, back = shift(one, other), shift(other, one)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert there.estimate == pytest.approx(-back.estimate)
        assert (there.low, there.high) == (pytest.approx(-back.high), pytest.approx(-back.low))
        assert there.low <= there.estimate <= there.high


@given(VALUES, VALUES, st.floats(0.01, 100))
def test_a_ratio_does_not_depend_on_the_unit(one: list[float], other: list[float], unit: float) -> None:
    change, again = (
        ratio(one, other),
        ratio([unit * value for value in one], [unit * value for value in other]),
    )
    assert (change is None) == (again is None)
    if change is not None and again is not None:
        assert change.estimate == pytest.approx(again.estimate, abs=1e-6)


@given(st.lists(st.floats(0.1, 10.0), max_size=4), VALUES)
def test_a_few_values_tell_nothing(one: list[float], other: list[float]) -> None:
    assert shift(one, other) is None


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_the_interval_holds_the_true_shift_as_often_as_it_says(correlation: float) -> None:
    chance, misses, tried = random.Random(1), 0, 400

    def series() -> list[float]:
        values, last = [], chance.gauss(0, 1)
        for _ in range(40):
            last = correlation * last + math.sqrt(1 - correlation**2) * chance.gauss(0, 1)
            values.append(last)
        return values

    for _ in range(tried):
        change = shift(series(), [value + 1 for value in series()])
        misses += change is not None and not change.low <= 1 <= change.high
    # 1 % are expected; the correlation is estimated from 40 values, too small on average, hence the rest.
    assert misses / tried < (0.03 if not correlation else 0.06), misses


def test_one_disturbed_stretch_moves_nothing() -> None:
    quiet = [0.01 + 1e-5 * (index % 5) for index in range(20)]
    change = ratio(quiet, [*quiet[:-1], 5.0])
    assert change is not None
    assert not change.beyond(0.01)
