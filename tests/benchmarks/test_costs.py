"""The pure parts of the benchmarks of costs: intervals, and how they are shown."""

from __future__ import annotations

import random
from functools import partial

import pytest

from benchmarks.paired import Interval, mean, median, paired_difference, paired_ratio, take_turns
from benchmarks.truths import interval


def test_a_ratio_is_of_pairs_so_what_slows_both_leaves_it_alone() -> None:
    drawn = random.Random(0)
    slowed = [drawn.uniform(1.0, 10.0) for _ in range(50)]
    ratio = paired_ratio([0.25 * seconds for seconds in slowed], slowed)
    assert ratio == pytest.approx((0.25, 0.25, 0.25))


def test_the_interval_of_a_median_holds_the_true_one_about_19_times_of_20() -> None:
    drawn = random.Random(0)
    found = [median([drawn.gauss(5.0, 1.0) for _ in range(41)]) for _ in range(100)]
    held = sum(interval.low <= 5.0 <= interval.high for interval in found)
    assert 88 <= held <= 100
    assert all(interval.low < interval.middle < interval.high for interval in found)


def test_a_control_of_the_same_thing_holds_no_difference() -> None:
    drawn = random.Random(0)
    one, other = ([drawn.gauss(5.0, 1.0) for _ in range(41)] for _ in range(2))
    difference = paired_difference(one, other)
    assert difference.low < 0 < difference.high


def test_rare_work_is_in_a_mean_and_not_in_a_median() -> None:
    windows = [1.0] * 9 + [11.0]
    assert median(windows).middle == 1.0
    assert mean(windows).middle == 2.0


def test_each_thing_has_one_turn_in_each_round_and_not_always_the_same_place() -> None:
    order: list[str] = []
    found = take_turns({name: partial(order.append, name) for name in "abc"}, 20)
    rounds = ["".join(order[first : first + 3]) for first in range(0, 60, 3)]
    assert {len(turns) for turns in found.values()} == {20}
    assert all(sorted(one) == ["a", "b", "c"] for one in rounds)
    assert len(set(rounds)) > 3


@pytest.mark.parametrize(
    ("found", "unit", "shown", "note"),
    [
        (Interval(1.2345e-6, 1.1e-6, 1.3e-6), "s", "1.2345 µs", "95 %: 1.1 µs to 1.3 µs"),
        (Interval(0.9e-3, 0.8e-3, 1.1e-3), "s", "900 µs", "95 %: 800 µs to 1.1 ms"),
        (Interval(-2e-3, -3e-3, 0.0), "s", "-2 ms", "95 %: -3 ms to 0 s"),
        (Interval(3 * 2.0**20, 512.0, 250 * 2.0**20), "B", "3 MiB", "95 %: 512 B to 250 MiB"),
        (Interval(0.0852, 0.08, 0.0901), "", "0.0852", "95 %: 0.08 to 0.0901"),
    ],
)
def test_a_figure_is_shown_with_its_interval_in_units_that_suit(
    found: Interval, unit: str, shown: str, note: str
) -> None:
    figure = interval("n", found, unit)
    assert figure.cells == ("n", "–", shown, "shown", note)
