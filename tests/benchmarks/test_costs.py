"""The pure parts of the benchmarks of costs: intervals, and sections as Markdown."""

from __future__ import annotations

import random
from functools import partial

import pytest

from benchmarks.costs.sections import Section, cell, table
from benchmarks.paired import Interval, mean, median, paired_difference, paired_ratio, take_turns


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
    ("interval", "unit", "text"),
    [
        (Interval(1.2345e-6, 1.1e-6, 1.3e-6), "s", "1.23 µs (1.10–1.30)"),
        (Interval(0.9e-3, 0.8e-3, 1.1e-3), "s", "0.900 ms (0.800–1.10)"),
        (Interval(-2e-3, -3e-3, 1e-3), "s", "-2.00 ms (-3.00 to 1.00)"),
        (Interval(3 * 2.0**20, 2.0**20, 250 * 2.0**20), "B", "3.00 MiB (1.00–250)"),
        (Interval(0.0852, 0.08, 0.0901), "", "0.0852 (0.0800–0.0901)"),
        (Interval(1.0042, 0.998, 1.0104), "", "1.0042 (0.9980–1.0104)"),
        (Interval(2.5e-5, 2e-5, 3e-5), "", "0.0000250 (0.0000200–0.0000300)"),
        (Interval(0.0, 0.0, 0.5), "%", "0.00 % (0.00–0.500)"),
    ],
)
def test_a_figure_is_shown_with_its_interval_in_one_unit(interval: Interval, unit: str, text: str) -> None:
    assert cell(interval, unit) == text


def test_a_section_says_what_was_measured_on_and_what_is_missing() -> None:
    steps = table("Steps", ["beside", "ratio"], [["a span", "0.0852"]])
    section = Section("Marking", [steps], missing=["wandb: it is not installed"])
    assert section.text({"machine": "a laptop"}).splitlines() == [
        "## Marking",
        "",
        "- machine: a laptop",
        "",
        "### Steps",
        "",
        "| beside | ratio |",
        "| --- | --- |",
        "| a span | 0.0852 |",
        "",
        "Not measured: wandb: it is not installed.",
    ]


def test_controls_are_one_line_below_their_table() -> None:
    more, less = (Interval(middle, 0.9, 1.1) for middle in (1.02, 0.98))
    *rows, _, line = table("", ("", "ratio"), [["a", "2.00"]], [more, less]).splitlines()
    assert rows[-1] == "| a | 2.00 |"
    assert line == "Control: 0.9800 (0.9000–1.1000) to 1.0200 (0.9000–1.1000)."
