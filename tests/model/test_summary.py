"""The summary shows what is known, `–` for what is not, and each reason once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.snapshot import Snapshot
from jaxobs.model.summary import LARGEST_EXECUTABLES, render
from jaxobs.model.text_table import TextTable, printable

NO_PEAK = "no peaks are known for this processor"

DOCUMENT: dict[str, Any] = {
    "process": {"seconds": 61.2, "jax": "0.10.2", "platform": "cpu"},
    "loops": {
        "train": {
            "steps": 1200, "step_seconds": 0.0123, "step_seconds_source": "host", "steps_per_second": 81.2,
            "tokens_per_second": 332_800.0, "examples_per_second": None, "recorded": {"loss": 2.345},
            "mfu": None, "mfu_reason": NO_PEAK, "hfu": None, "hfu_reason": NO_PEAK,
            "bottleneck": {"label": "compute", "confidence": 0.72, "runner_up": "host", "shares": {}},
        }
    },
    "functions": {
        "train_step": {
            "compilations": 4,
            "recompilations": [
                {"cause": "dtype", "argument": "batch", "old": "f32[8]", "new": "bf16[8]",
                 "call_site": "/home/ada/train.py:42", "count": 1, "seconds": 1.0},
                {"cause": "shape", "count": 1, "seconds": 0.3},
                {"cause": "shape", "count": 1, "seconds": 0.2},
            ],
            "seconds": {"trace": 0.12, "lower": 0.05, "backend": 1.5, "cache_read": 0.0},
        },
        "(eager)": {"compilations": 8, "recompilations": [], "seconds": {"backend": 0.1}},
    },
    "executables": [
        {
            "function": "train_step", "executable": "deadbeefcafe", "runs": 1100, "seconds": 12.0,
            "cost": {"flops": 2_919_235_584, "intensity": 12.3, "exact": False}, "seconds_per_run": 0.011,
            "efficiency": None, "efficiency_reason": NO_PEAK,
            "bottleneck": {"label": "unknown", "confidence": 0.0, "runner_up": None},
        },
    ],
    "sources": {"host": {"up": True}, "nvidia": {"up": False}},
    "agent": {"events_dropped": 3, "events_refused": 0},
    "advice": [],
}  # fmt: skip


def line(text: str, beginning: str) -> str:
    """The first line that begins so, its columns a space apart."""
    return next(" ".join(line.split()) for line in text.splitlines() if line.startswith(beginning))


def test_loops() -> None:
    text = render(DOCUMENT)
    assert line(text, "loop ") == "loop steps step time steps/s tokens/s MFU HFU loss"
    assert line(text, "train ") == "train 1,200 12.3 ms (host) 81.2 333 k – – 2.35"
    assert "bottleneck of train: compute (72 % sure, then host)" in text


def test_functions_by_seconds_with_causes() -> None:
    text = render(DOCUMENT)
    assert line(text, "train_step") == "train_step 4 2 shape, 1 dtype 1.670 0.120 0.050 1.500 0.000"
    assert text.index("train_step") < text.index("(eager)")


def test_the_dearest_recompilations_say_what_changed() -> None:
    again = render(DOCUMENT, width=200).partition("compiled again")[2].partition("executables")[0]
    assert [" ".join(line.split()) for line in again.splitlines() if line] == [
        "function cause argument from to times seconds called at",
        "train_step dtype batch f32[8] bf16[8] 1 1.000 train.py:42",
        "train_step shape – – – 1 0.300 –",
        "train_step shape – – – 1 0.200 –",
    ]


def test_executables_with_a_cost_that_is_a_lower_bound() -> None:
    executables = render(DOCUMENT).partition("executables")[2]
    assert line(executables, "train_step") == "train_step deadbeef 1,100 ≥ 2.92 G 12.3 11 ms – unknown"


def test_a_reason_is_given_once_for_all_that_lacks_for_it() -> None:
    loops = render(DOCUMENT).partition("compiled functions")[0]
    assert loops.count(NO_PEAK) == 1
    assert f"– MFU, HFU: {NO_PEAK}" in loops


def test_what_was_lost_is_said() -> None:
    headline = render(DOCUMENT).splitlines()[0]
    assert headline == "jaxobs: 61.2 s observed, jax 0.10.2, cpu, 3 events dropped, failed: nvidia"


def test_a_snapshot_that_is_not_there_gives_its_reason() -> None:
    document = {"process": None, "process_reason": "the agent did not answer within 2 s"}
    assert render(document) == "jaxobs: no summary: the agent did not answer within 2 s"


def test_only_a_terminal_gets_escape_sequences() -> None:
    assert "\x1b" not in render(DOCUMENT)
    assert "\x1b[1m" in render(DOCUMENT, bold=True)


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
    assert shown == ["f1", *(f"f{number}" for number in range(19, 19 - LARGEST_EXECUTABLES + 1, -1))]
    assert "12 smaller ones are not shown" in executables


@pytest.mark.parametrize("name", ["[red]", "[/]", "a\nb", "a" * 300, "\x1b[31m", "ünïcode", "\ud800", ""])
def test_any_name_of_a_function_is_shown_as_it_is(name: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    document["functions"] = {name: document["functions"]["train_step"]}
    text = render(document)
    assert "2 shape" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert not name.isprintable() or name[:20] in text


values = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 10**18)


@given(st.dictionaries(st.sampled_from(sorted(DOCUMENT["loops"]["train"])), values), st.integers(60, 200))
def test_any_numbers_at_any_width(loop: dict[str, Any], width: int) -> None:
    loop = {**loop, "recorded": {"loss": loop.pop("recorded", None)}, "bottleneck": None}
    text = render({**DOCUMENT, "loops": {"train": loop}}, width=width)
    assert "train" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_snapshot_prints_as_its_summary() -> None:
    snapshot = Snapshot(0, DOCUMENT)
    assert str(snapshot) == snapshot.summary() == render(DOCUMENT)
    assert max(map(len, str(snapshot).splitlines())) <= 100
    loops = snapshot.summary(width=70).partition("\nloops\n")[2].partition("\n\n")[0]
    assert max(map(len, loops.splitlines())) <= 70


def test_a_snapshot_is_one_short_line_where_it_is_looked_at() -> None:
    assert repr(Snapshot(0, DOCUMENT)) == (
        "<Snapshot train: 1,200 steps, 12.3 ms a step, bottleneck compute; 2 functions compiled in 1.77 s; "
        "print() shows more, .to_dict() has everything>"
    )
    nothing = Snapshot(0, {"process": None, "process_reason": "nothing has run yet"})
    assert repr(nothing).startswith("<Snapshot nothing has run yet;")


def test_the_address_and_the_advice_are_said() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["process"]["address"] = "http://localhost:9464/metrics"
    document["advice"] = [{"sentence": "The loop waits for its input.", "remedy": "Prefetch."}]
    text = render(document)
    assert "metrics at http://localhost:9464/metrics" in text.splitlines()[0]
    assert text.splitlines()[-1] == "→ The loop waits for its input. Prefetch."


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
