"""The summary shows what is known, `–` for what is not, and each reason once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.cli.summary import LARGEST_EXECUTABLES, render

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
            "compilations": 2, "recompilations": {"shape": 1, "dtype": 0},
            "seconds": {"trace": 0.12, "lower": 0.05, "backend": 1.5, "cache_read": 0.0},
        },
        "(eager)": {"compilations": 8, "recompilations": {}, "seconds": {"backend": 0.1}},
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
    assert line(text, "train_step") == "train_step 2 1 shape 1.670 0.120 0.050 1.500 0.000"
    assert text.index("train_step") < text.index("(eager)")


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
    assert "\x1b[1m" in render(DOCUMENT, colour=True)


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
    assert "1 shape" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert not name.isprintable() or name[:20] in text


values = st.none() | st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 10**18)


@given(st.dictionaries(st.sampled_from(sorted(DOCUMENT["loops"]["train"])), values), st.integers(60, 200))
def test_any_numbers_at_any_width(loop: dict[str, Any], width: int) -> None:
    loop = {**loop, "recorded": {"loss": loop.pop("recorded", None)}, "bottleneck": None}
    text = render({**DOCUMENT, "loops": {"train": loop}}, width=width)
    assert "train" in text
    assert not any(line != line.rstrip() for line in text.splitlines())
