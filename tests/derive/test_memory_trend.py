"""The forecast of running out: exact on a straight line, silent wherever memory does not grow steadily."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive import memory_trend
from jaxobs.derive.memory_trend import (
    CLEAR,
    FURTHEST_SECONDS,
    MIN_STRETCHES,
    NO_LIMIT,
    NO_TREND,
    STRETCH_SECONDS,
    STRETCHES,
    TOO_FAR,
    TOO_FEW,
    Highest,
    kendall,
)

GIB = 2.0**30
lengths = st.integers(MIN_STRETCHES, STRETCHES)


class Told(NamedTuple):
    seconds: float | None
    bytes_per_second: float | None
    reason: str | None


def forecast(points: Sequence[tuple[float, float]], limit: float | None) -> Told:
    growth, left = memory_trend.forecast(points, limit)
    return Told(left.value, growth.value, left.reason)


def line(length: int, slope: float, begin: float = GIB, first: float = 0.0) -> list[tuple[float, float]]:
    return [
        (first + number * STRETCH_SECONDS, begin + slope * number * STRETCH_SECONDS)
        for number in range(length)
    ]


@given(lengths, st.floats(1.0, 1e9), st.floats(0.0, FURTHEST_SECONDS * 0.99))
def test_steady_growth_reaches_the_limit_when_the_line_does(length: int, slope: float, ahead: float) -> None:
    points = line(length, slope)
    told = forecast(points, points[-1][1] + slope * ahead)
    assert told.bytes_per_second == pytest.approx(slope, rel=1e-4)
    assert told.seconds == pytest.approx(ahead, rel=1e-3, abs=2.0)
    assert told.reason is None


@given(lengths, st.floats(0.0, 1e9))
def test_memory_that_falls_or_stays_runs_never_out(length: int, slope: float) -> None:
    told = forecast(line(length, -slope, begin=1e13), 1e15)
    assert (told.seconds, told.bytes_per_second, told.reason) == (None, None, NO_TREND)


@given(
    st.lists(st.floats(0.0, 1e12), min_size=MIN_STRETCHES, max_size=STRETCHES),
    st.floats(1e12, 1e13),
    st.integers(-20, 20),
    st.floats(0.0, 1e9),
)
def test_units_and_the_moment_do_not_matter(
    values: list[float], limit: float, power: int, later: float
) -> None:
    points = [(number * STRETCH_SECONDS, value) for number, value in enumerate(values)]
    told = forecast(points, limit)
    other_unit = forecast([(second, value * 2.0**power) for second, value in points], limit * 2.0**power)
    another_day = forecast([(second + 86_400 * 64, value) for second, value in points], limit)
    assert other_unit.seconds == (pytest.approx(told.seconds) if told.seconds is not None else None)
    assert another_day == told


@given(lengths, st.data())
def test_one_jump_is_no_growth(length: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, length - 1))
    points = [(number * STRETCH_SECONDS, GIB * (1 + (number >= at))) for number in range(length)]
    assert forecast(points, 3 * GIB).reason == NO_TREND


@given(lengths, st.data())
def test_two_jumps_are_no_growth_wherever_they_lie(length: int, data: st.DataObject) -> None:
    first, second = (data.draw(st.integers(1, length - 1)) for _ in range(2))
    points = [
        (number * STRETCH_SECONDS, GIB * (10 + 10 * (number >= first) + 10 * (number >= second)))
        for number in range(length)
    ]
    assert forecast(points, 80 * GIB).reason == NO_TREND


@pytest.mark.parametrize("every", [3, 5, 8])
def test_growth_by_a_step_now_and_then_is_growth_as_soon_as_it_is_told_from_jumps(every: int) -> None:
    points = [(number * STRETCH_SECONDS, GIB * (10 + number // every)) for number in range(STRETCHES)]
    told = forecast(points, 80 * GIB)
    assert told.bytes_per_second == pytest.approx(GIB / (every * STRETCH_SECONDS), rel=0.1)


@given(lengths)
def test_growth_that_has_stopped_is_no_growth(length: int) -> None:
    points = [(second, min(value, line(length, 1e6)[length // 2][1])) for second, value in line(length, 1e6)]
    assert forecast(points, 1e12).reason == NO_TREND


@pytest.mark.parametrize("seed", range(5))
def test_noise_without_a_trend_gives_none_but_once_in_hundreds(seed: int) -> None:
    draw = random.Random(seed)
    clear = [
        kendall([(n, draw.random()) for n in range(30)]) >= CLEAR for _ in range(400)
    ]  # one in 740 by chance
    assert sum(clear) <= 4


@given(lengths, st.integers(0, 1000))
def test_growth_is_seen_through_noise_and_outliers(length: int, seed: int) -> None:
    draw = random.Random(seed)
    noisy = [(second, value + draw.uniform(0, 2e6)) for second, value in line(length, 1e6)]
    noisy[length // 3] = (noisy[length // 3][0], 1e12)
    told = forecast(noisy, noisy[-1][1] + 1e9)
    assert told.bytes_per_second == pytest.approx(1e6, rel=0.1)
    assert told.seconds == pytest.approx(1000, rel=0.1)


def test_reasons_say_what_is_missing() -> None:
    assert forecast(line(MIN_STRETCHES - 1, 1e6), 1e12).reason == TOO_FEW
    without_limit = forecast(line(MIN_STRETCHES, 1e6), None)
    assert (without_limit.seconds, without_limit.reason) == (None, NO_LIMIT)
    assert without_limit.bytes_per_second == pytest.approx(1e6)
    assert forecast(line(STRETCHES, 1.0), 1e12).reason == TOO_FAR


def test_over_the_limit_is_now() -> None:
    assert forecast(line(STRETCHES, 1e6), 1.0).seconds == 0.0


def test_kendall_s_statistic_is_as_by_hand() -> None:
    # Rising less falling pairs of each value with those behind it: 7 + 3 + 5 + 1 + 3 + 2.
    values = [10.0, 22.0, 21.0, 30.0, 22.0, 30.0, 40.0, 40.0]
    score, variance = 21, (8 * 7 * 21 - 3 * 2 * 1 * 9) / 18  # three pairs of equal values
    assert kendall(list(enumerate(values))) == pytest.approx((score - 1) / math.sqrt(variance))
    assert kendall([(0, 1.0), (1, 1.0)]) == 0.0


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 1e12)), min_size=1, max_size=300))
def test_each_stretch_keeps_its_highest(steps: list[tuple[float, float]]) -> None:
    highest, second = Highest(), 0.0
    expected: dict[float, float] = {}
    for gap, value in steps:
        second += gap
        begin = math.floor(second / STRETCH_SECONDS) * STRETCH_SECONDS
        assert highest.add(second, value) == (begin not in expected)
        expected[begin] = max(value, expected.get(begin, 0.0))
    assert highest.complete() == list(expected.items())[:-1][-STRETCHES:]
