"""The summary shows what is known, `–` for what is not, and each reason once, below all tables."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.cost import MEASURED
from jaxobs.report.snapshot import Snapshot
from jaxobs.report.summary import render
from jaxobs.report.text_table import to_text

NO_PEAK = "no peaks are known for this processor"

DOCUMENT: dict[str, Any] = {
    "process": {"seconds": 61.2, "jax": "0.10.2", "platform": "cpu"},
    "loops": {
        "train": {
            "inferred": True, "iterations_per_step": 1000,
            "steps": 1200, "step_seconds": 0.0123, "step_seconds_source": "host", "steps_per_second": 81.2,
            "tokens_per_second": 332_800.0, "examples_per_second": None, "recorded": {"loss": 2.345},
            "mfu": None, "mfu_reason": NO_PEAK, "hfu": None, "hfu_reason": NO_PEAK,
            "components": {"compute": 44.0, "host": 12.0, "input": 3.0, "compile": 2.0, "checkpoint": 0.2, "memory": 0.0},
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
            "efficiency": None, "efficiency_reason": NO_PEAK, "source": "watched",
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
    assert "  train in all: compute 72 %, host 20 %, input 4.9 %, compile 3.3 %" in text.splitlines()
    loop = DOCUMENT["loops"]["train"] | {"components": {"host": 3.0, "unknown": 1.0}}
    text = render(DOCUMENT | {"loops": {"train": loop}})
    assert "  train in all, as known at the time: host 75 %, unknown 25 %" in text.splitlines()


def test_functions_by_seconds_with_causes() -> None:
    text = render(DOCUMENT)
    assert line(text, "train_step") == "train_step 4 2 shape, 1 dtype 1.67 s 120 ms 50 ms 1.5 s"
    assert text.index("train_step") < text.index("(eager)")


def test_the_dearest_recompilations_say_what_changed() -> None:
    again = render(DOCUMENT, width=200).partition("compiled again")[2].partition("executables")[0]
    assert [" ".join(line.split()) for line in again.splitlines() if line] == [
        "function why what changed called at cost",
        "train_step dtype batch: f32[8] → bf16[8] train.py:42 once 1 s",
        "train_step shape – – once 300 ms",
        "train_step shape – – once 200 ms",
    ]


def test_what_reads_alike_before_and_after_is_another_one() -> None:
    document = copy.deepcopy(DOCUMENT)
    alike = {"argument": None, "old": "step at train.py:3", "new": "step at train.py:3"}
    document["functions"]["train_step"]["recompilations"][0] |= {"cause": "redefined", **alike}
    again = render(document, width=200).partition("compiled again")[2]
    assert line(again, "train_step") == "train_step redefined another step at train.py:3 train.py:42 once 1 s"


def test_executables_with_a_cost_that_is_a_lower_bound() -> None:
    executables = render(DOCUMENT).partition("executables")[2]
    assert line(executables, "train_step") == "train_step deadbeef 1,100 11 ms ≥ 2.92 G 12.3 – unknown"


def test_an_executable_whose_repetitions_are_a_mean_has_no_lower_bound() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["executables"][0]["cost"] |= {"exact": False, "inexact_reasons": [MEASURED]}
    assert "≈ 2.92 G" in line(render(document).partition("executables")[2], "train_step")


def test_a_reason_is_given_once_for_all_that_lacks_for_it() -> None:
    text = render(DOCUMENT)
    assert text.count(NO_PEAK) == 1
    assert text.splitlines()[-2:] == [
        "– is not known:",
        f"  – MFU, HFU; efficiency of `train_step`: {NO_PEAK}",
    ]


def test_a_reason_names_its_loops_where_there_are_several() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["loops"]["3"] = copy.deepcopy(document["loops"]["train"])
    document["loops"]["eval"] = {**document["loops"]["train"], "hfu": 0.5, "hfu_reason": None}
    document["executables"] = []
    assert f"  – MFU, HFU of `train`, `3`; MFU of `eval`: {NO_PEAK}" in render(document).splitlines()


def test_a_value_with_a_reserve_is_marked_and_the_reserve_is_said() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["loops"]["train"] |= {"mfu": 1.35, "mfu_reason": "above 1: the matrix peak is too low"}
    text = render(document)
    assert line(text, "train ") == "train 1,200 12.3 ms (host) 81.2 333 k 135 % * – 2.35"
    assert "  * MFU: above 1: the matrix peak is too low" in text.splitlines()


def test_runs_of_profiler_windows_alone_are_marked() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["executables"][0] |= {"runs": 3, "source": "sampled"}
    executables = render(document).partition("\nexecutables\n")[2]
    assert line(executables, "train_step") == "train_step deadbeef 3 * 11 ms ≥ 2.92 G 12.3 – unknown"
    reserve = "runs and time in profiler windows alone: a sample of all"
    assert f"  * runs of `train_step`: {reserve}" in executables.splitlines()


def test_a_reserve_names_the_time_of_a_run_in_full() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["executables"][0]["seconds_per_run_reason"] = "of runs that were traced"
    assert "  * time per run of `train_step`: of runs that were traced" in render(document).splitlines()


def test_a_close_verdict_names_its_runner_up() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["executables"][0]["bottleneck"] = {"label": "compute", "confidence": 0.1, "runner_up": "latency"}
    assert "compute or latency" in render(document)
    document["executables"][0]["bottleneck"]["confidence"] = 0.6
    assert "latency" not in render(document)


def test_a_sentence_says_of_each_loop_what_limits_it_and_of_the_longest_what_was_compiled_again() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["loops"]["eval"] = {
        "steps": 7,
        "bottleneck": {"label": "unknown", "reason": "7 steps are too few"},
    }
    lines = render(document).splitlines()
    assert lines[1].startswith(
        "  `train` runs at 81.2 steps/s. It is limited by compute, then host. 2.5 % of the run"
    )
    assert "  `eval` has done 7 steps. What limits it is not known: 7 steps are too few." in lines
    assert sum("compiling" in line for line in lines) == 1


def test_compiles_are_told_by_line_where_they_take_long_as_a_sample_may_stand_for_more_than_one() -> None:
    document = copy.deepcopy(DOCUMENT)
    rows = [("train.py:9 main", 2.5), ("train.py:9 main", 7.5), ("train.py:7 main", 0.4)]
    document["loops"]["train"]["host_lines"] = [
        {"line": where, "waits_in": "", "activity": "compile", "seconds": seconds, "share": 0.0}
        for where, seconds in rows
    ]
    told = render(document, width=200).splitlines()
    assert "  host lines of train: 10 s compiling at train.py:9 main" in told


def test_where_no_loop_was_found_it_is_said_how_one_is() -> None:
    text = render(DOCUMENT | {"loops": {}, "process": {**DOCUMENT["process"], "finds_loops": True}})
    assert text.splitlines()[1].startswith(
        "  No loop was found: one is found when calls of a jitted function"
    )


def test_where_goodput_is_not_known_the_reason_is_there_and_no_nought() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["process"] |= {
        "run_seconds": {"other": 9.0},
        "goodput": None,
        "goodput_reason": "nothing was marked",
    }
    lines = render(document).splitlines()
    assert lines.index("  – goodput: nothing was marked") > lines.index("  the run: other 9 s; goodput –")


def test_the_run_and_its_memory_are_a_line_each() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["process"] |= {
        "run_seconds": {
            "initialisation": 9.0,
            "compile": 2.0,
            "productive": 40.0,
            "input": 10.0,
            "other": 0.1,
        },
        "phase_seconds": {"initialisation": 8.0, "evaluation": 2.5, "export": 1e-4},
        "goodput": 0.65,
        "memory": {"in_use_bytes": 3 * 2**29, "peak_bytes": 2**31, "limit_bytes": None},
    }
    small, large = ({"in_use_bytes": size * 2**30, "limit_bytes": 2**36} for size in (1, 60))
    document["devices"] = [{"device": 0, "memory": small}, {"device": 1, "memory": large}, {"device": 2}]
    lines = render(document).splitlines()
    spent = "productive 40 s, input 10 s, initialisation 9 s, compile 2 s; in phases: evaluation 2.5 s"
    assert f"  the run: {spent}; goodput 65 %" in lines
    assert (
        "  memory: device 1, the fullest of 2, 60 GiB of 64 GiB (94 %); process 1.5 GiB, at most 2 GiB"
        in lines
    )


def test_what_to_run_for_peaks_is_said_once_and_only_where_one_is_missed() -> None:
    document = copy.deepcopy(DOCUMENT)
    hint = "no compute and memory peaks: run `jaxobs calibrate` on this machine"
    document["devices"] = [{"device": number, "peaks": {"reason": hint}} for number in range(2)]
    assert render(document).count(hint) == 1
    document["loops"]["train"]["mfu_reason"] = hint
    assert render(document).count(hint) == 1
    for part in (document["loops"]["train"], document["executables"][0]):
        for key in ("mfu_reason", "hfu_reason", "efficiency_reason"):
            part[key] = None
    assert hint not in render(document)


def test_counts_that_do_not_begin_at_the_start_and_events_that_were_refused_are_said() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["process"]["counts_begin_seconds"] = 7.5
    document["agent"] |= {"events_refused": 2, "refused_reasons": ["Recorded: no number"]}
    lines = render(document).splitlines()
    assert (
        "  counts begin 7.5 s after the start: the agent was lost, and with it what it had counted" in lines
    )
    assert "  refused: Recorded: no number" in lines


def test_what_was_lost_is_said() -> None:
    headline = render(DOCUMENT).splitlines()[0]
    assert headline == "jaxobs: 61.2 s observed, jax 0.10.2, cpu, 3 events dropped, failed: nvidia"


def test_a_snapshot_that_is_not_there_gives_its_reason() -> None:
    document = {"process": None, "process_reason": "the agent did not answer within 2 s"}
    assert render(document) == "jaxobs: no summary: the agent did not answer within 2 s"


def test_only_a_terminal_gets_escape_sequences() -> None:
    assert "\x1b" not in render(DOCUMENT)
    assert "\x1b[1m" in render(DOCUMENT, bold=True)


def test_in_a_terminal_no_line_is_broken_within_a_word() -> None:
    line = f"  * efficiency: {'of runs that the profiler traced; ' * 4}".rstrip()
    assert to_text([line], width=40) == line
    first, *others = to_text([line], width=40, bold=True).splitlines()
    assert " ".join([first, *others]).split() == line.split()
    assert all(len(each) <= 40 for each in (first, *others))
    assert all(re.match(" {4}[a-z]", each) for each in others)


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
    loop = {**loop, "recorded": {"loss": loop.pop("recorded", None)}, "bottleneck": None, "components": None}
    text = render({**DOCUMENT, "loops": {"train": loop}}, width=width)
    assert "train" in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_snapshot_prints_as_its_summary() -> None:
    snapshot = Snapshot(0, DOCUMENT)
    assert str(snapshot) == snapshot.summary() == render(DOCUMENT)
    assert max(map(len, str(snapshot).splitlines())) <= 100
    for width in (200, 70, 2):
        _, *said = snapshot.summary(width=width).partition("\n\nloops\n")[0].splitlines()
        assert max(map(len, said)) <= max(20, min(100, width))
    loops = snapshot.summary(width=70).partition("\nloops\n")[2].partition("\n\n")[0]
    assert max(map(len, loops.splitlines())) <= 70


def test_a_snapshot_is_one_short_line_where_it_is_looked_at() -> None:
    assert repr(Snapshot(0, DOCUMENT)) == (
        "<Snapshot: train runs at 81.2 steps/s. It is limited by compute, then host. 2.5 % of the run went into "
        "compiling train_step again, because the dtype of batch changed at train.py:42. print() shows more, "
        ".to_dict() has everything>"
    )
    nothing = Snapshot(0, {"process": None, "process_reason": "nothing has run yet"})
    assert repr(nothing).startswith("<Snapshot: Nothing is known yet: nothing has run yet.")


def test_the_address_and_the_advice_are_said() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["process"]["address"] = "http://localhost:9464/metrics"
    document["advice"] = [
        {"sentence": "The loop waits for its input.", "remedy": "Prefetch.", "saves_ratio": 0.28,
         "seconds_per_hour": 1008.0},
        {"sentence": "Arguments are not donated.", "remedy": "Donate.", "saves_ratio": None, "saves_bytes": 2**30},
    ]  # fmt: skip
    text = render(document)
    assert "metrics at http://localhost:9464/metrics" in text.splitlines()[0]
    assert text.splitlines()[-2:] == [
        "→ The loop waits for its input. Prefetch. That would give back up to 28 % of the time, 16.8 min an hour.",
        "→ Arguments are not donated. Donate. That would give back up to 1 GiB.",
    ]


def test_no_line_of_a_sentence_ends_between_a_number_and_its_unit():
    for width in range(40, 110):
        said = render(DOCUMENT, width=width).split("\n\n")[0]
        assert not re.search(r"\d\n +%", said), width
