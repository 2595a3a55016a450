"""Figures in words: three digits, the unit that fits, and never `1e+03`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.vocabulary.units import (
    amount,
    byte_size,
    count,
    duration,
    percent,
    rough,
    rough_percent,
    signed_percent,
    times,
)


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (3 * 2**40, "3 TiB"), (2**60, "1,048,576 TiB"),
        (-(2**20), "-1 MiB"),
    ],
)  # fmt: skip
def test_bytes(bytes_: int, words: str) -> None:
    assert byte_size(bytes_) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (1e-9, "1 ns"), (2.5e-6, "2.5 µs"), (0.0123, "12.3 ms"), (0.99996, "1 s"), (61.2, "61.2 s"),
        (150, "2.5 min"), (7199, "120 min"), (9000, "2.5 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (999.6, "1 k"), (2.919e9, "2.92 G"), (4.2e18, "4.2 E"), (0.5, "0.5"), (1.5e-5, "1.50e-05")],
)
def test_amounts(value: float, words: str) -> None:
    assert amount(value) == words
    assert amount(value, "FLOP/s").endswith("FLOP/s")


@given(st.floats(1e-9, 1e14) | st.floats(-1e14, -1e-9))
def test_no_figure_of_a_usual_size_has_a_power_of_ten(value: float) -> None:
    assert "e" not in duration(value)
    assert "e" not in byte_size(value if abs(value) >= 1e-3 else 1.0)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_no_share_has_a_power_of_ten(ratio: float) -> None:
    for write in (percent, rough_percent, signed_percent):
        assert "e" not in write(ratio)


@given(st.floats(0, 1e12))
def test_a_duration_read_back_is_the_same_to_three_digits(seconds: float) -> None:
    number, unit = duration(seconds).split()
    size = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(number.replace(",", "")) * size == pytest.approx(seconds, rel=0.005)


def test_shares_and_counts() -> None:
    assert (percent(0.1234), rough_percent(0.1234), rough_percent(0.999)) == ("12.3 %", "12 %", "100 %")
    assert percent(15.0) == "1,500 %"
    assert (percent(2.5e-16), rough_percent(-2.5e-16), percent(0.0)) == ("< 0.001 %", "> -0.001 %", "0 %")
    assert signed_percent(-2.5e-16) == "+0 %"
    assert [rough(number) for number in (3.21, 99.7, 1234.0)] == ["3.2", "100", "1,234"]
    assert [signed_percent(change) for change in (0.25, -0.031, 0.0, 9.996)] == [
        "+25 %",
        "-3.1 %",
        "+0 %",
        "+1,000 %",
    ]
    assert [times(number) for number in (1, 2, 1500)] == ["once", "twice", "1,500 times"]


def test_one_of_a_thing_is_no_plural() -> None:
    assert [count(number, "step") for number in (0, 1, 1234)] == ["0 steps", "1 step", "1,234 steps"]
    assert count(1234) == "1,234"
