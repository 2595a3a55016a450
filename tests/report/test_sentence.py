from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.snapshot import longest_loops
from jaxobs.report.sentence import (
    as_it_is,
    code,
    hang_sentence,
    pieces,
    plain,
    sentence,
    sentence_without_loop,
    slowdown_sentence,
    spent_by_part,
    why_unknown,
    without_quotes,
)
from jaxobs.vocabulary.words import INSIDE, ON_ONE_THREAD
from tests.sample_document import document, loop

LOOP: dict[str, Any] = {
    "wall_seconds": 60.0, "steps": 1_200, "steps_per_second": 18.0, "step_seconds": 0.055, "mfu": 0.24,
    "bottleneck": {
        "label": "compute", "runner_up": "input", "confidence": 0.6, "shares": {"compute": 0.63, "input": 0.2},
    },
}  # fmt: skip


def said(*recompilations: dict[str, object], **loop: object) -> str:
    document = {
        "process": {"seconds": 100.0},
        "loops": {"warm-up": {"wall_seconds": 1.0}, "train": LOOP | loop},
        "functions": {"train_step": {"recompilations": list(recompilations)}},
    }
    name = longest_loops(document)[0]
    assert name == "train"
    return plain(sentence(document, name))


def recompilation(**more: object) -> dict[str, object]:
    return {
        "cause": "shape",
        "argument": "tokens",
        "seconds": 12.0,
        "call_site": "/home/ada/training.py:84",
    } | more


def test_pace_limit_and_what_was_compiled_again_are_said_as_a_person_would() -> None:
    assert said(recompilation(), recompilation(seconds=0.2, argument="mask")) == (
        "`train` runs at 18 steps/s, MFU 24 %. It is limited by compute (63 % of the time), then input (20 %)."
        " 12 % of the run went into compiling `train_step` again,"
        " because the shape of `tokens` changed at training.py:84."
    )


def test_an_mfu_that_is_a_lower_bound_is_told_as_such() -> None:
    assert "steps/s, MFU at least 24 %." in said(
        mfu_reason="a lower bound: how often loop w runs cannot be told"
    )
    assert "steps/s, MFU 24 %." in said(mfu_reason="the repetitions of its loops are the mean of those seen")


ENDED: dict[str, Any] = {
    "steps_per_second": None, "mfu": None, "step_seconds": None, "left_seconds": 36.0,
    "components": {"input": 45.0, "compute": 15.0}, "bottleneck": {"label": "unknown", "reason": "no step", "shares": {}},
}  # fmt: skip


def test_of_a_loop_that_ended_long_ago_its_whole_is_told() -> None:
    assert said(**ENDED) == (
        "`train` ended 36 s ago after 1,200 steps. Most of its time went to input (75 %)."
    )
    assert "after 1 step." in said(**{**ENDED, "steps": 1})
    assert said(**{**ENDED, "components": {"unknown": 3.0, "input": 1.0}}) == (
        "`train` ended 36 s ago after 1,200 steps. What most of its time went to is not known."
    )


def test_an_mfu_above_1_is_told_with_what_it_says_of_the_peak() -> None:
    assert "steps/s, MFU 121 % of a peak that is too low." in said(mfu=1.21)


def test_of_a_job_that_is_over_no_loop_ended_some_time_ago() -> None:
    over = {"process": {"ended": "crashed"}, "loops": {"train": LOOP | ENDED}}
    told = plain(sentence(over, "train"))
    assert told.startswith("`train` ended 36 s before the end, after 1,200 steps. Most of its time"), (
        "`jaxobs runs` tells it days later"
    )


def test_of_a_loop_that_ended_just_now_its_pace_is_told_as_one_that_was() -> None:
    """For half a minute it was said to run at the rate of its end."""
    just_now = {"left_seconds": 8.0}
    assert said(left_seconds=3.0).startswith("`train` runs at 18 steps/s"), "as between two epochs"
    assert said(**just_now) == (
        "`train` ended 8 s ago after 1,200 steps. It ran at 18 steps/s, MFU 24 %. "
        "It was limited by compute (63 % of the time), then input (20 %)."
    )
    assert "It took 55 ms a step, MFU 24 %." in said(steps=1, **just_now)
    over = {"process": {"ended": "ended"}, "loops": {"train": LOOP | just_now}}
    assert plain(sentence(over, "train")).startswith("`train` runs at 18 steps/s"), (
        "the summary tells what it was"
    )


def test_what_is_said_of_a_young_loop_is_said_of_all_its_time() -> None:
    """Its table had been charged before a run was timed, and named another part than the sentence above it."""
    charged = {"unknown": 40.0, "compute": 20.0}
    young = {**LOOP, "components": charged, "recent_seconds": 60.0, "left_seconds": 3.0}
    assert spent_by_part(young) == pytest.approx({"compute": 37.8, "input": 12.0})
    assert spent_by_part(young | {"recent_seconds": 30.0}) is charged


def test_what_is_not_known_is_no_thing_that_limits() -> None:
    verdict = {"label": "compile", "runner_up": "unknown", "confidence": 0.02}
    shares = {"compile": 0.51, "unknown": 0.49}
    assert said(bottleneck=verdict | {"shares": shares}).endswith(
        "It seems to be limited by compile (51 % of the time), which is not sure."
    )


def test_work_whose_cost_is_not_known_is_called_so_wherever_it_stands() -> None:
    shares = {"unmodelled": 0.98, "unknown": 0.02}
    for confidence in (0.05, 0.9):
        verdict = {"label": "unmodelled", "runner_up": "unknown", "confidence": confidence, "shares": shares}
        assert "limited by work whose cost is not known (98 % of the time)" in said(bottleneck=verdict)
    second = {"label": "compute", "runner_up": "unmodelled", "confidence": 0.9, "shares": {"compute": 1.0}}
    assert said(bottleneck=second).endswith("then work whose cost is not known.")


def test_one_step_is_a_time_and_no_rate() -> None:
    assert said(steps=1).startswith("`train` takes 55 ms a step, MFU 24 %.")


def test_a_pace_without_inner_loops_is_told_as_such() -> None:
    for note in (INSIDE, ON_ONE_THREAD):
        assert said(steps_per_second_reason=note).startswith(f"`train` runs at 18 steps/s {note}, MFU 24 %.")


def test_beside_a_loop_without_steps_of_late_what_is_under_way_is_told() -> None:
    quiet = {**LOOP, **ENDED, "left_seconds": None}
    evaluates = {"process": {"phases": {"evaluation": 36.0}}, "loops": {"train": quiet}}
    assert plain(sentence(evaluates, "train")).endswith(
        "not known: no step. The job has been in `evaluation` for 36 s."
    )
    left = evaluates | {"loops": {"train": LOOP | {"left_seconds": 3.0}}}
    assert plain(sentence(left, "train")).endswith("input (20 %). The job has been in `evaluation` for 36 s.")
    other = {"process": {}, "loops": {"train": quiet, "eval": LOOP}}
    assert plain(sentence(other, "train")).endswith("Meanwhile `eval` runs at 18 steps/s, MFU 24 %.")
    assert "Meanwhile" not in plain(sentence(other, "eval"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps_per_second": 0.2, "step_seconds": 5.0}, "`train` takes 5 s a step, MFU 24 %."),
        ({"steps_per_second": None, "mfu": None}, "`train` has done 1,200 steps."),
        ({"bottleneck": {"label": None, "reason": "2 steps are too few"}}, "not known: 2 steps are too few."),
        (
            {"bottleneck": {**LOOP["bottleneck"], "confidence": 0.05}},
            "It seems to be limited by compute (63 % of the time), which is not sure.",
        ),
        (
            {
                "bottleneck": {
                    **LOOP["bottleneck"],
                    "confidence": 0.05,
                    "shares": {"compute": 0.5, "input": 0.4},
                }
            },
            "Two things limit it about as much: compute (50 % of the time) and input (40 %).",
        ),
        (
            {
                "bottleneck": {
                    "label": "unknown",
                    "runner_up": None,
                    "reason": "1 step is too few",
                    "shares": {"compute": 0.9},
                }
            },
            "What limits it is not known: 1 step is too few.",
        ),
    ],
)
def test_what_is_not_known_or_not_clear_is_said_to_be(change: dict[str, object], words: str) -> None:
    assert words in said(**change)


def test_what_to_know_of_an_mfu_is_no_reason_of_unknown_time() -> None:
    found = {"mfu_reason": "a lower bound", "bottleneck": {"label": "compute"}, "profile_reason": "no window"}
    assert why_unknown(LOOP | found) == "no window"
    assert why_unknown(LOOP | found | {"mfu": None}) == "a lower bound"


def test_a_recompilation_that_took_little_or_has_no_argument_is_not_made_more_of() -> None:
    assert "again" not in said(recompilation(seconds=0.5))
    assert said(recompilation(cause="unknown", argument=None, call_site=None)).endswith(
        "`train_step` again (unknown)."
    )


HANG = {
    "loop": "train", "seconds": 43.0, "began_seconds": 60.0, "over": False, "longest_pause_seconds": 0.7,
    "function": "train_step", "line": "train.py:9 callback", "waits_in": "acquire", "activity": "waiting",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {},
            (
                "`train` has ended no step for 43 s (the longest pause before was 700 ms): its thread is waiting at "
                "`train.py:9 callback` (acquire), and the device runs `train_step`."
            ),
        ),
        (
            {"over": True, "function": None, "activity": "device", "waits_in": ""},
            (
                "`train` ended no step for 43 s, 60 s after the start (the longest pause before was 700 ms): its thread "
                "was waiting for the device at `train.py:9 callback`."
            ),
        ),
        (
            {"steps": 1204, "steps_in_flight": 3, "function": None},
            (
                "`train` has ended no step for 43 s (after 1,204 steps, of which the last 3 may not be done, the longest "
                "pause before was 700 ms): its thread is waiting at `train.py:9 callback` (acquire)."
            ),
        ),
        (
            {
                "function": None,
                "devices": [
                    {"device": 0, "utilization_ratio": 1.0, "power_ratio": 0.25},
                    {"device": 1, "utilization_ratio": 0.97, "power_ratio": None},
                ],
            },
            (
                "`train` has ended no step for 43 s (the longest pause before was 700 ms): its thread is waiting at "
                "`train.py:9 callback` (acquire); its devices: 97 % to 100 % busy, 25 % of the power limit."
            ),
        ),
        (
            {"line": None, "line_reason": "the process does not answer", "function": None},
            "`train` has ended no step for 43 s (the longest pause before was 700 ms): the process does not answer.",
        ),
    ],
)
def test_a_hang_is_said_with_its_line(changed: dict[str, Any], said: str) -> None:
    assert plain(hang_sentence({**HANG, **changed})) == said


SLOWDOWN = {
    "loop": "train", "began_timestamp_seconds": 1_700_000_000.0, "began_seconds": 600.0, "seconds": 100.0, "over": False,
    "step_seconds_before": 0.1, "step_seconds": 0.13, "ratio": 1.3, "activity": "input", "activity_reason": None,
    "line": "train.py:9 load", "line_reason": None, "parts": {"input": {"before": 0.01, "after": 0.04}},
    "facts": ["`f` was compiled again (shape) 5 s before"],
}  # fmt: skip


def test_a_slowdown_says_since_when_where_and_what_else_changed() -> None:
    said = plain(slowdown_sentence(SLOWDOWN))
    assert said.startswith("`train` takes 130 ms a step instead of 100 ms (+30 %) since ")
    assert said.endswith(
        ", 10 min after the start: its thread is waiting for its input for 40 ms of a step instead of 10 ms, most at "
        "`train.py:9 load`. About then: `f` was compiled again (shape) 5 s before."
    )
    found = document(loops={"train": loop(100, compute=1.6)}) | {"slowdowns": [SLOWDOWN]}
    assert said in plain(sentence(found, "train"))
    over = found | {"slowdowns": [SLOWDOWN | {"over": True}]}
    assert said not in plain(sentence(over, "train"))


def test_where_the_thread_is_not_known_a_slowdown_says_why() -> None:
    unknown = SLOWDOWN | {"activity": None, "activity_reason": "no samples", "parts": {}, "facts": []}
    assert plain(slowdown_sentence(unknown)).endswith("; where is not known: no samples.")


def test_a_hang_that_lasts_comes_first() -> None:
    found = document(loops={"train": loop(100, compute=1.6)}) | {"hangs": [HANG]}
    said = plain(sentence(found, "train"))
    assert said.startswith("`train` has ended no step for 43 s")
    assert "train_step`. Before that: `train` " in said
    over = plain(sentence(found | {"hangs": [HANG | {"over": True}]}, "train"))
    assert "ended no step" not in over


def test_without_a_loop_what_is_under_way_is_said_and_advice_is_for_who_needs_it() -> None:
    found: dict[str, Any] = {
        "process": {"finds_loops": True, "running": {"function": "fit", "seconds": 12.0}}
    }
    assert plain(sentence_without_loop(found)) == (
        "No loop was found: one is found when calls of a jitted function repeat for a second or two."
        " The device has been running `fit` for 12 s."
    )
    marked: dict[str, Any] = {"process": {"finds_loops": False, "compiling": {"f": 61.0, "g": 0.3}}}
    assert plain(sentence_without_loop(marked)).endswith("`jaxobs run`. `f` has been compiling for 61 s.")
    marked["process"]["compiling_phases"] = {"f": "backend", "g": "trace"}
    assert plain(sentence_without_loop(marked)).endswith("`f` has been compiling for 61 s: XLA compiles it.")


NAMES = st.text(st.sampled_from("`* ab")) | st.text()


@given(NAMES, NAMES)
def test_a_name_is_whole_whatever_marks_are_in_it_and_its_backquotes_are_apostrophes(
    name: str, other: str
) -> None:
    text = f"{code(name)}** runs** {code(other)}."
    one, two = (each.replace("`", "'") for each in (name, other))
    assert list(pieces(text)) == [(one, "code"), (" runs", "strong"), (" ", ""), (two, "code"), (".", "")]
    assert without_quotes(as_it_is(name)).replace("`", "'") == one


@given(st.text(st.sampled_from("`* ab")))
def test_of_any_text_nothing_but_marks_is_left_out(text: str) -> None:
    """A mark that is not closed is a part of the text."""
    kept = "".join(words for words, _ in pieces(text))
    assert [letter for letter in kept if letter in "ab"] == [letter for letter in text if letter in "ab"]
