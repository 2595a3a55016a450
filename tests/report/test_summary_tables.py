"""Which rows and columns the tables of a summary have."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.summary import MAX_EXECUTABLES, render
from jaxobs.report.text_table import TextTable
from jaxobs.vocabulary.text import printable
from tests.report.test_summary import DOCUMENT, NO_PEAK, line


def test_reasons_tell_apart_the_executables_of_a_function() -> None:
    document = copy.deepcopy(DOCUMENT)
    for number, why in enumerate(("one", "another")):
        row = {"function": "f", "executable": f"{number}" * 16, "cost": {"flops": 7}, "runs_reason": why}
        document["executables"].append(row | {"runs": None, "seconds_per_run": number + 1.0})
    executables = render(document).partition("\nexecutables\n")[2].splitlines()
    assert {"  – runs of `f 00000000`: one", "  – runs of `f 11111111`: another"} <= set(executables)


def test_no_row_is_without_a_figure() -> None:
    document = copy.deepcopy(DOCUMENT)
    nothing = {
        "executable": "0",
        "runs": None,
        "runs_reason": "nobody knows",
        "bottleneck": {"label": "unknown"},
    }
    document["executables"] += [{**nothing, "function": f"f{number}"} for number in range(3)]
    text = render(document)
    assert "3 of which nothing is known are not shown" in text
    assert "nobody knows" not in text
    document["executables"] = document["executables"][1:]
    document["loops"] = {"train": {"steps": None, "mfu": None, "mfu_reason": "nobody knows"}}
    assert not {"loops", "executables"} & set(render(document).splitlines())


def test_the_largest_executables_are_shown_by_device_seconds_then_flops() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["executables"] = [
        {
            "function": f"f{number}",
            "executable": "0",
            "cost": {"flops": number},
            "seconds": 9.0 if number == 1 else None,
        }
        for number in range(20)
    ]
    executables = render(document).partition("\nexecutables\n")[2]
    shown = [
        line.split()[0] for line in executables.splitlines() if line.startswith("f") and line[1].isdigit()
    ]
    assert shown == ["f1", *(f"f{number}" for number in range(19, 19 - MAX_EXECUTABLES + 1, -1))]
    assert "12 smaller ones are not shown" in executables


def test_the_largest_operations_are_shown_once_windows_were_read() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["operations"] = [
        {"operation": f"dot.{number}", "function": "train_step", "share": 0.4, "achieved_flops_per_second": 1.2e11,
         "efficiency": None, "efficiency_reason": NO_PEAK, "bottleneck": "compute", "source": "/home/ada/net.py:7"}
        for number in range(5)
    ]  # fmt: skip
    operations = render(document).partition("\nlargest operations of train_step in profiler windows\n")[2]
    assert line(operations, "dot.0") == "dot.0 net.py:7 40 % 120 G – compute"
    document["operations"][0] |= {"scope": "encoder/mlp", "function": "eval_step"}
    assert line(render(document), "dot.0").startswith("dot.0 eval_step encoder/mlp net.py:7 40 %")
    document["operations"][0]["scope"] = f"{'encoder/' * 9}mlp"
    assert line(render(document, width=200), "dot.0").startswith(
        "dot.0 eval_step …der/encoder/encoder/encoder/encoder/mlp "
    )
    assert "dot.2" in operations
    assert "dot.3" not in operations


@given(st.lists(st.lists(st.text(max_size=40), min_size=3, max_size=3), max_size=5), st.integers(30, 120))
def test_a_table_keeps_every_letter_and_its_width(rows: list[list[str]], width: int) -> None:
    table = TextTable(("name", "b", "c"), left=("c",))
    for row in rows:
        table.add(*row)
    lines = list(table.lines(width))
    assert all(len(line) <= width for line in lines)
    shown = sorted("".join("".join(lines).split()))
    cells = [printable(cell) for row in rows for cell in row]
    assert shown == sorted("".join("".join(["name", "b", "c", *cells]).split()))


def test_the_line_of_a_program_is_not_broken_where_a_heading_can_be() -> None:
    table = TextTable(
        ("operation", "line", "of device time", "FLOP/s", "efficiency", "limited by"),
        left=("line", "limited by"),
    )
    table.add("copy_bitcast_fusion.4", "demonstration.py:151", "5 %", "1.81 G", "5.38 %", "compute or memory")
    assert any("copy_bitcast_fusion.4  demonstration.py:151" in line for line in table.lines(80))
    assert all(len(line) <= 80 for line in table.lines(80))
    assert all(len(line) <= 60 for line in table.lines(60))


def test_cells_that_end_and_begin_with_a_number_are_words_of_their_own() -> None:
    table = TextTable(("", "began", "run", "how it went"), left=("began", "run", "how it went"))
    for number in range(8):
        run = f"net{number}" if number else "the one with a name"
        table.add(f"last~{number}", f"2026-11-29 22:2{number}", run, "it was limited by its input")
    text = "\n".join(table.lines(50))
    assert all(f"2026-11-29 22:2{number}" in text for number in range(8))


def test_a_number_and_its_unit_stay_on_one_line_where_a_name_can_be_broken() -> None:
    table = TextTable(("operation", "runs", "time", "efficiency", "limited by"), left=("limited by",))
    table.add("broadcast_add_fusion.1", "400", "3.26 s", "80.4 %", "communication")
    lines = list(table.lines(60))
    assert "400  3.26 s      80.4 %  communication" in lines[1]
    assert all(len(line) <= 60 for line in lines)
