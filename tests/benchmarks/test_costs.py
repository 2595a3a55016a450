"""The pure parts of the benchmarks of costs: intervals, results on disk, and the page."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest

from benchmarks.costs.sections import (
    Demand,
    Measured,
    Section,
    Table,
    cell_text,
    keep,
    kept,
    page,
    section_text,
    table_text,
)
from benchmarks.paired import Interval, mean, median, paired_difference, paired_ratio, take_turns


def measured_on(machine: str, date: str = "2026-01-01") -> dict[str, str]:
    return {"date": date, "machine": machine, "system": "Linux", "versions": "jax 1", "load average": "0.1"}


def section(machine: str = "a laptop", date: str = "2026-01-01") -> Section:
    ratio = Measured(Interval(0.0852, 0.08, 0.09))
    table = Table("Steps", "What was\ncompared.", ["beside", "ratio"], [["a span", ratio]])
    demands = [Demand("it is cheap", held=True), Demand("it is free", held=False)]
    return Section("Marking", [table], demands, ["wandb: it is not installed"], measured_on(machine, date))


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
    ("cell", "text"),
    [
        (Measured(Interval(1.2345e-6, 1.1e-6, 1.3e-6), "s"), "1.23 µs (1.10–1.30)"),
        (Measured(Interval(0.9e-3, 0.8e-3, 1.1e-3), "s"), "0.900 ms (0.800–1.10)"),
        (Measured(Interval(-2e-3, -3e-3, 1e-3), "s"), "-2.00 ms (-3.00 to 1.00)"),
        (Measured(Interval(3 * 2.0**20, 2.0**20, 250 * 2.0**20), "B"), "3.00 MiB (1.00–250)"),
        (Measured(Interval(0.0852, 0.08, 0.0901)), "0.0852 (0.0800–0.0901)"),
        (Measured(Interval(1.0042, 0.998, 1.0104)), "1.0042 (0.9980–1.0104)"),
        (Measured(Interval(2.5e-5, 2e-5, 3e-5)), "0.000025 (0.000020–0.000030)"),
        (Measured(Interval(0.0, 0.0, 0.5), "%"), "0 % (0–0.500)"),
        ("—", "—"),
    ],
)
def test_a_figure_is_shown_with_its_interval_in_one_unit(cell: Measured | str, text: str) -> None:
    assert cell_text(cell) == text


def test_a_section_says_what_was_not_shown_and_what_is_missing() -> None:
    assert section_text(section()).splitlines() == [
        "Held: it is cheap.",
        "",
        "**Not held**: it is free.",
        "",
        "### Steps",
        "",
        "What was compared.",
        "",
        "| beside | ratio |",
        "| --- | --- |",
        "| a span | 0.0852 (0.0800–0.0900) |",
        "",
        "Not measured: wandb: it is not installed.",
    ]


def test_controls_are_one_line_below_their_table() -> None:
    two, more, less = (Measured(Interval(middle, 0.9, 1.1)) for middle in (2.0, 1.02, 0.98))
    rows: list[list[str | Measured]] = [["a", two, more], ["b", "—", less]]
    *table, _, line = table_text(Table("", "", ("", "ratio", "control: a / a"), rows)).splitlines()
    assert table[-2:] == ["| a | 2.00 (0.900–1.10) |", "| b | — |"]
    assert line == "Control: 0.9800 (0.9000–1.1000) to 1.0200 (0.9000–1.1000)."


def test_a_section_measured_elsewhere_names_its_machine() -> None:
    written = page([section("a laptop", "2026-01-01"), section("a server", "2026-02-01")])
    top, laptop, server = written.split("## Marking")
    assert "a server" in top
    assert "a laptop" not in top
    assert "a laptop" in laptop
    assert "a server" not in server


def test_results_are_kept_as_they_were_found(tmp_path: Path) -> None:
    keep("step_cost", section(), tmp_path)
    assert kept("step_cost", tmp_path) == section()
    assert kept("scrape", tmp_path) is None
