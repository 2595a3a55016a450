"""What counts as right, absent and wrong in the table of programs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.observed import Run
from tests.programs.catalogue import PROGRAMS
from tests.programs.judgement import (
    judge_bottleneck,
    judge_loop,
    judge_mfu,
    judge_rate,
    judge_same,
    main_loop,
    mfu_by_hand,
    whole_mfu,
)

TRUTH: dict[str, Any] = {
    "functions": ["train_step"],
    "steps": 100,
    "steps_per_second": 20.0,
    "iterations": None,
    "matrix_flops": 1e9,
}


def loop(rate: float | None = 20.0, label: str = "compute", confidence: float = 0.5) -> dict[str, Any]:
    verdict = {"label": label, "confidence": confidence}
    return {
        "steps": 100,
        "steps_per_second": rate,
        "mfu": 0.2,
        "wall_seconds": 5.0,
        "bottleneck": verdict,
    }


def ran(status: int, stdout: str, stderr: str) -> Run:
    return Run(status, stdout, stderr, 1.0)


def document(**loops: dict[str, Any]) -> dict[str, Any]:
    peaks = {"matrix": {"float32": {"value": 1e11}}}
    return {"loops": loops, "devices": [{"peaks": peaks}]}


def test_the_loop_of_the_functions_name_is_judged_also_where_another_took_longer() -> None:
    other = {**loop(), "wall_seconds": 50.0}
    found = main_loop([document(evaluate=other, train_step=loop())], TRUTH)
    assert found is not None
    assert found[0] == "train_step"
    assert judge_loop(found, TRUTH).verdict == "right"
    wrong = main_loop([document(evaluate=other)], TRUTH)
    assert judge_loop(wrong, TRUTH).verdict == "WRONG"
    assert judge_loop(main_loop([document()], TRUTH), TRUTH).verdict == "absent"


def test_a_name_with_its_place_is_the_functions_and_one_that_only_contains_it_is_not() -> None:
    assert judge_loop(("scan (train_step.py:9)", loop()), TRUTH).verdict == "right"
    assert judge_loop(("pretrain_step", loop()), TRUTH).verdict == "WRONG"


def test_rates_are_of_the_last_snapshot_that_has_some() -> None:
    documents = [document(train_step=loop(19.5)), document(train_step=loop(None))]
    found = main_loop(documents, TRUTH)
    assert judge_rate(found, TRUTH).verdict == "right"


@pytest.mark.parametrize(
    ("rate", "iterations", "verdict"),
    [(20.9, None, "right"), (21.2, None, "WRONG"), (None, None, "absent"), (790.0, 40, "right")],
)
def test_a_rate_is_right_within_five_per_cent_of_calls_or_of_the_iterations_in_them(
    rate: float | None, iterations: int | None, verdict: str
) -> None:
    truth = {**TRUTH, "iterations": iterations}
    assert judge_rate(("train_step", loop(rate)), truth).verdict == verdict


def test_a_rate_that_says_that_compiles_are_in_it_is_not_wrong() -> None:
    slow = {**loop(12.0), "steps_per_second_reason": "compiles took 40 % of the time that this is over"}
    assert judge_rate(("train_step", slow), TRUTH).verdict == "absent"


def test_mfu_by_hand_decides_where_it_is_known() -> None:
    by_hand = mfu_by_hand(TRUTH, document())
    assert by_hand == pytest.approx(0.2)  # 1 GFLOP, 20 times a second, of 100 GFLOP/s
    assert judge_mfu(0.21, 0.5, by_hand).verdict == "right"
    assert judge_mfu(0.25, 0.25, by_hand).verdict == "WRONG"
    assert judge_mfu(0.21, 0.2, None).verdict == "right"
    assert judge_mfu(0.4, 0.2, None).verdict == "WRONG"
    assert judge_mfu(0.4, 0.2, None, pace=2.0).verdict == "right"
    assert judge_mfu(None, 0.2, None).verdict == "absent"
    assert judge_mfu(0.21, None, None).verdict == "shown"
    assert whole_mfu(("train", {"mfu": 0.2, "mfu_reason": None})) == 0.2
    assert whole_mfu(("train", {"mfu": 0.0002, "mfu_reason": "a lower bound: how often loop runs"})) is None


@pytest.mark.parametrize(
    ("label", "confidence", "marked", "marked_confidence", "verdict"),
    [
        ("compute", 0.4, "compute", 0.4, "right"),
        ("host", 0.4, "compute", 0.4, "WRONG"),
        ("host", 0.04, "compute", 0.4, "shown"),
        ("host", 0.4, "compute", 0.04, "shown"),
        ("unknown", 0.0, "compute", 0.4, "absent"),
    ],
)
def test_a_bottleneck_is_compared_where_the_marked_run_is_sure(
    label: str, confidence: float, marked: str, marked_confidence: float, verdict: str
) -> None:
    found = ("train_step", loop(label=label, confidence=confidence))
    reference = ("train", loop(label=marked, confidence=marked_confidence))
    assert judge_bottleneck(found, reference).verdict == verdict


def test_only_clocks_may_differ_between_the_outputs() -> None:
    plain = ran(0, '1 0.5\n{"truth": {"seconds": 1.5, "result": "ab"}}\n', "I1122 13:00 pid 7 ready\n")
    later = ran(0, '1 0.5\n{"truth": {"seconds": 1.6, "result": "ab"}}\n', "I1122 13:01 pid 8 ready\n")
    assert judge_same(plain, later).verdict == "right"
    tracker = "/lib/resource_tracker.py:254: UserWarning: resource_tracker: 1 leaked shared_memory objects\n"
    left = ran(0, later.stdout, later.stderr + tracker)
    assert judge_same(plain, left).verdict == "right"
    other = ran(1, '1 0.5\n{"truth": {"seconds": 1.6, "result": "ac"}}\n', "")
    assert judge_same(plain, other).found == "status, output, errors differ"


def test_there_are_fifteen_programs_each_in_a_file_that_imports_no_jaxobs() -> None:
    assert len(PROGRAMS) == 15
    for program in PROGRAMS:
        assert "jaxobs" not in program.path.read_text().lower()
