import re

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.tables import Column, sorted_rows
from jaxobs.report.terminal import bar, roofline, steps
from jaxobs.report.view import View
from tests.sample_document import document, loop


def plain_text(lines):
    return "\n".join("".join(span.text for span in line).rstrip() for line in lines)


@given(st.integers(30, 200), st.integers(6, 60), st.integers(0, 40), st.integers(0, 60))
def test_a_roofline_keeps_to_its_room(width, height, executables, operations):
    lines = list(roofline(document(executables, operations), width, height))
    assert len(lines) <= height
    assert max(map(len, plain_text(lines).splitlines()), default=0) <= width


def test_each_executable_has_a_letter_in_the_plot_and_in_the_key():
    lines = plain_text(roofline(document(3, 0), 120, 30)).splitlines()
    plot, key = "".join(line[:80] for line in lines), "\n".join(line[80:] for line in lines)
    for letter in "ABC":
        assert plot.count(letter) == 1
    assert re.search(r"^.?A train_step +\d+ % (compute|memory)", key, re.MULTILINE)
    assert "float32 250 GFLOP/s" in plot


def test_points_lie_where_their_rates_are():
    """Ten times the rate is as far up as from one level to the next but one."""
    found = document(2, 0)
    for number, row in enumerate(found["executables"]):
        row["cost"] = {"intensity": 2.0}
        row["achieved_flops_per_second"] = 1e9 * 10**number
    lines = plain_text(roofline(found, 100, 40)).splitlines()
    levels = {
        match[1]: y for y, line in enumerate(lines) if (match := re.match(r" *([\d.]+ ?[GMT]?)┤", line))
    }
    at = {letter: next(y for y, line in enumerate(lines) if letter in line[7:50]) for letter in "AB"}
    assert abs((at["A"] - at["B"]) - (levels["1 G"] - levels["10 G"])) <= 1


def test_a_roofline_without_peaks_says_why_once_for_all_devices():
    devices = [{"device": each, "kind": "cpu", "peaks_reason": "run `jaxobs calibrate`"} for each in range(8)]
    shown = plain_text(roofline(document(1, 0, devices=devices), 100, 20)).replace("\n", " ")
    assert shown.count("No roof: run `jaxobs calibrate`.") == 1


@given(st.floats(0, 1), st.integers(1, 80))
def test_a_bar_is_as_long_as_its_share(share, width):
    drawn = bar(share, width)
    assert len(drawn) == width
    assert abs(drawn.count("█") - share * width) <= 1


@given(
    st.dictionaries(st.sampled_from(["compute", "input", "host", "compile"]), st.floats(0.01, 10), min_size=1)
)
def test_the_bars_of_a_step_name_its_parts_with_their_shares(parts):
    blank = dict.fromkeys(("compute", "input"), 0.0)
    shown = plain_text(steps(View(document(loops={"train": loop(**(blank | parts))})), 80))
    whole = sum(parts.values())
    for name, seconds in parts.items():
        assert bool(re.search(rf"^{name} .* % .*s$", shown, re.MULTILINE)) is (seconds >= 0.005 * whole)


def test_the_parts_are_those_of_the_last_half_minute_where_nothing_was_compiled_in_it():
    found = loop(compute=90.0, input=10.0)
    for lately, since, known in (
        ({"compute": 0.1, "input": 0.9}, "over the last half minute", r"^input +█+.* 90 %"),
        ({"compute": 0.1, "compile": 0.9}, "since the loop began", r"^input +█+.* 10 %"),
    ):
        found["bottleneck"]["shares"] = lately
        shown = plain_text(steps(View(document(loops={"train": found})), 80))
        assert since in shown
        assert re.search(known, shown, re.MULTILINE)


def test_all_loops_are_named_and_the_chosen_one_first():
    found = document(loops={"train": loop(compute=9.0), "eval": loop(7)})
    shown = plain_text(steps(View(found, wanted_loop="eval"), 100)).splitlines()
    assert shown[0].startswith("eval  7 steps")
    assert any(line.startswith("train  100 steps") for line in shown)


VALUES = st.lists(st.none() | st.floats(allow_nan=False), max_size=20)


@given(VALUES, st.booleans())
def test_sorting_keeps_every_row_and_puts_the_unknown_last(values, descending):
    rows = [{"value": value, "at": at} for at, value in enumerate(values)]
    column = Column("", lambda row: str(row["value"]), value=lambda row: row["value"])
    ordered = sorted_rows(rows, column, descending=descending)
    assert sorted(row["at"] for row in ordered) == list(range(len(rows)))
    found = [row["value"] for row in ordered]
    known = [value for value in values if value is not None]
    assert found == sorted(known, reverse=descending) + [None] * (len(values) - len(known))
