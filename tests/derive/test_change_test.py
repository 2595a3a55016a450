"""The test for a lasting change of a noisy level: what it finds, what it leaves alone, and that it knows no scale."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.loops.change_test import MIN_REFERENCE, Changed, ChangeTest, _limit

MIN_SHIFT = math.log(1.05)
RATE = 1 / 360_000
"""False alarms a value: one in a thousand hours of ten seconds each."""
LASTING = 6


def changes(values: Iterable[float]) -> list[tuple[int, Changed]]:
    """The changes that are found, each with the number of values by which it was."""
    test = ChangeTest(MIN_SHIFT)
    found = []
    for count, value in enumerate(values, 1):
        changed = test.add(value, false_alarms=RATE, lasting=LASTING)
        if changed is not None:
            found.append((count, changed))
    return found


def noise(count: int, deviation: float, seed: int, correlation: float = 0.0) -> list[float]:
    """Values around 0 of a first-order process."""
    drawn, value, values = random.Random(seed), 0.0, []
    for _ in range(count):
        value = correlation * value + math.sqrt(1 - correlation**2) * drawn.gauss(0, deviation)
        values.append(value)
    return values


def shifted(values: Sequence[float], at: int, by: float) -> list[float]:
    return [value + (by if place >= at else 0.0) for place, value in enumerate(values)]


@given(st.floats(-20, 20), st.integers(1, 400))
def test_constant_values_never_change(level: float, count: int) -> None:
    assert changes([level] * count) == []


@given(
    st.integers(0, 1000), st.integers(60, 250), st.floats(0.002, 0.02), st.floats(0.3, 2.0), st.sampled_from((-1, 1))
)  # fmt: skip
def test_a_large_shift_is_found_within_a_dozen_values_and_told_where_it_was(
    seed: int, at: int, deviation: float, size: float, sign: int
) -> None:
    found = changes(shifted(noise(at + 12, deviation, seed), at, sign * size))
    assert len(found) == 1
    count, changed = found[0]
    assert abs(count - changed.values - at) <= 1
    assert changed.after - changed.before == pytest.approx(sign * size, abs=6 * deviation)


@given(st.integers(0, 1000), st.floats(-8, 8))
def test_levels_are_told_apart_alike_whatever_the_unit_is(seed: int, unit: float) -> None:
    """Values are logarithms: another unit adds the same to each."""
    values = shifted(noise(120, 0.02, seed), 80, 0.2)
    there = changes([value + unit for value in values])
    here = changes(values)
    assert [(count, found.values) for count, found in there] == [
        (count, found.values) for count, found in here
    ]


@given(st.integers(0, 1000), st.integers(30, 200), st.integers(1, LASTING - 1), st.floats(0.1, 3.0))
def test_what_passes_before_it_lasts_is_no_change(seed: int, at: int, long: int, size: float) -> None:
    values = noise(at + 60, 0.01, seed)
    for place in range(at, at + long):
        values[place] += size
    assert changes(values) == []


def taking_turns(count: int, share: float, apart: float, seed: int) -> list[float]:
    """Values of two levels, of which the higher one has that share."""
    drawn = random.Random(seed)
    return [value + apart * (drawn.random() < share) for value in noise(count, 0.005, seed)]


@given(st.integers(0, 1000), st.floats(0.05, 0.95), st.floats(0.05, 1.0))
@settings(max_examples=30)
def test_two_levels_that_take_turns_are_no_change(seed: int, share: float, apart: float) -> None:
    """As of batches that are padded to two lengths: the rarer one is no disturbance."""
    assert changes(taking_turns(300, share, apart, seed)) == []


@pytest.mark.parametrize("seed", range(5))
def test_what_becomes_slower_while_two_levels_take_turns_is_found(seed: int) -> None:
    found = changes(shifted(taking_turns(200, 0.3, 0.4, seed), 150, 0.3))
    assert [count > 150 for count, _ in found] == [True]


@pytest.mark.parametrize("seed", range(5))
def test_a_change_is_found_soon_though_a_tenth_of_the_values_is_disturbed(seed: int) -> None:
    values = shifted(taking_turns(100, 0.1, 0.4, seed), 80, 0.26)
    (count, changed), *others = changes(values)
    assert not others
    assert 80 < count <= 95
    assert changed.after - changed.before == pytest.approx(0.26, abs=0.1)


def test_a_level_that_comes_back_is_found_though_the_new_one_was_hardly_known() -> None:
    values = noise(120, 0.01, 1)
    for place in range(60, 70):
        values[place] += 0.7
    (_, slower), (count, faster) = changes(values)
    assert slower.after > slower.before
    assert faster.after < faster.before
    assert count - faster.values == 70


@pytest.mark.long
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_noise_alone_is_no_change_however_its_neighbours_are_correlated(correlation: float) -> None:
    """Three thousand values, of which at the rate that is allowed one in a hundred and twenty would find a change."""
    for seed in range(3):
        assert changes(noise(1_000, 0.03, seed, correlation)) == []


def test_a_slow_drift_is_followed() -> None:
    assert changes([value + 0.1 * place / 1_000 for place, value in enumerate(noise(1_000, 0.01, 3))]) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_drifts_after_its_start_is_judged_by_what_it_settled_to(seed: int) -> None:
    drift = [0.1 * math.exp(-place / 12) for place in range(120)]
    values = [value + own for value, own in zip(noise(120, 0.005, seed), drift, strict=True)]
    found = [(count, change) for count, change in changes(shifted(values, 60, 0.1)) if count > 60]
    assert found
    assert found[0][0] <= 70


def test_nothing_is_tested_before_there_is_something_to_compare_with() -> None:
    assert changes([0.0] * (MIN_REFERENCE // 2) + [1.0] * (MIN_REFERENCE // 2)) == []


@given(st.floats(0.1, 3.0), st.floats(1e3, 1e7))
def test_the_limit_is_that_of_siegmunds_formula(allowance: float, length: float) -> None:
    limit = _limit(allowance, length)
    z = 2 * allowance * (limit + 1.166)
    if limit > 0:
        assert (math.exp(z) - 1 - z) / (2 * allowance**2) == pytest.approx(length, rel=1e-6)


def test_the_limit_is_the_one_of_the_tables() -> None:
    """h = 4 with k = 1/2 has 336 values to an alarm on both sides of two (Lucas and Crosier, Technometrics 24, 1982)."""
    assert _limit(0.5, 336) == pytest.approx(4.0, abs=0.05)
