"""A recorded value that leaps: found where it lies far from what is usual, and where noise does not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.loops.recorded import LEAP, MIN_LEAP, USUAL, RecordedValue


def read(*values: float) -> RecordedValue:
    value = RecordedValue()
    for steps, each in enumerate(values):
        value.add(each, 10 * steps)
    return value


def noise(count: int, spread: float = 0.05, level: float = 2.5) -> list[float]:
    chance = random.Random(1)
    return [chance.gauss(level, spread) for _ in range(count)]


def test_a_loss_that_leaps_is_told_with_its_step_and_counted_once_while_it_stays() -> None:
    before = noise(300)
    value = read(*before, 9.0, 9.1, *noise(50))
    assert value.leaps == 1
    shown = value.figure()
    assert shown.value is not None
    assert shown.reason == "leapt from about 2.51 to 9 after 3,000 steps"
    again = read(*before, 9.0, *noise(50), 12.0)
    assert again.figure().reason == "leapt from about 2.51 to 12 after 3,510 steps; the last of 2 leaps"


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(noise(100_000), id="normal noise for a day"),
        pytest.param([10.0 * 0.97**step + noise(1)[0] for step in range(1000)], id="a loss that falls"),
        pytest.param([*noise(300), *noise(300, level=0.1)], id="a fall"),
        pytest.param([float(step) for step in range(5_000)], id="a count of tokens"),
        pytest.param([float(step // 200) for step in range(5_000)], id="epochs"),
        pytest.param([1e-3] * 500 + [1.0] * 500, id="a setting that is changed"),
        pytest.param([1 + 1e-9 * (step % 7) for step in range(500)] + [1.01], id="too small to be seen"),
        pytest.param([*noise(USUAL - 1), 100.0], id="before it is known what is usual"),
    ],
)
def test_what_is_no_leap_is_not_told(values: list[float]) -> None:
    value = read(*values)
    assert value.leaps == 0
    assert value.figure().reason is None


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.floats(1.5, 1e6))
def test_a_leap_is_one_whatever_the_level_and_the_scale(level: float, scale: float, height: float) -> None:
    usual = [level + scale * (step % 10) for step in range(USUAL)]
    far = max(LEAP * 9 * scale, MIN_LEAP * abs(level)) * height
    assert read(*usual, max(usual) + far).leaps == 1
    assert read(*usual, min(usual) - far).leaps == 0
    assert read(*usual, max(usual) + scale).leaps == 0


def test_a_value_that_is_not_finite_is_no_leap_and_its_first_step_stays() -> None:
    value = read(*noise(200), float("nan"), float("inf"))
    assert (value.not_finite, value.leaps) == (2, 0)
    assert value.figure().value is None
    assert "so far 2 of those read, first after 2,000 steps" in str(value.figure().reason)
