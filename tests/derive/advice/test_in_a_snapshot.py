"""Advice in the snapshot that the fold makes, and as series; the document has the keys that the cases here have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.events import ExecutableRan, FunctionWatched, LoopEnded
from tests.derive.advice import documents
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    check,
    created,
    families,
    main_thread,
    module,
    new_fold,
    peak,
    step,
    waits,
)


def waiting(wait: float, fold: Fold | None = None, begin: float = 2.0) -> Fold:
    """A hundred steps of a tenth of a second that begin with a wait for their input; the device computes for 50 ms."""
    fold = applied(fold or new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "x", at(1))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=3e10, executed_matrix_flops_by_type={"float32": 3e10}))
    applied(fold, [ExecutableRan(1, 0.05, 0.001, at(begin)), waits()])
    steps = [step(i, begin + i / 10, begin + (i + 1) / 10, wait=wait, runs=(1,)) for i in range(100)]
    seen = main_thread(
        begin, begin + 10, device=5.0, marked_input=10 * wait * 10, processor=5.0 - 10 * wait * 10
    )
    return applied(fold, [*steps, seen, LoopEnded("train", at(begin + 10), 0)])


def test_a_wait_for_input_is_advice_in_the_document_and_in_the_series() -> None:
    snapshot = waiting(0.03).snapshot(at(12))
    check(snapshot, {})
    told = {piece["condition"]: piece for piece in snapshot.to_dict()["advice"]}
    assert told["input_wait"]["saves_ratio"] == pytest.approx(0.3)
    assert told["host_work"]["saves_ratio"] == pytest.approx(0.2)
    series = families(snapshot)
    assert series["jaxobs_advice_info"]["input_wait", "train", ""] == 1.0
    assert series["jaxobs_advice_saves_ratio"]["input_wait", "train", ""] == pytest.approx(0.3)
    assert "jaxobs_advice_saves_bytes" not in series


def test_what_a_loop_would_give_back_is_no_share_of_the_time_of_a_loop_that_is_over() -> None:
    earlier = [step(number, 10 * number, 10 * number + 10, loop="pretrain") for number in range(100)]
    fold = applied(new_fold(), [*earlier, LoopEnded("pretrain", at(1_000), 0)])
    fold.snapshot(at(1_001))
    snapshot = waiting(0.03, fold, begin=1_040).snapshot(at(1_050))
    told = {piece["condition"]: piece for piece in snapshot.to_dict()["advice"]}
    assert told["input_wait"]["saves_ratio"] == pytest.approx(0.3)


def test_advice_that_no_longer_holds_goes_from_the_series() -> None:
    fold = waiting(0.03)
    fold.snapshot(at(12))
    steps = [step(100 + i, 50 + i / 10, 50 + (i + 1) / 10, runs=(1, 1)) for i in range(100)]
    snapshot = applied(fold, steps).snapshot(at(60))
    advice = {piece["condition"] for piece in snapshot.to_dict()["advice"]}
    assert "input_wait" not in advice
    assert not any(labels[0] == "input_wait" for labels in families(snapshot).get("jaxobs_advice_info", {}))


def test_advice_on_an_executable_goes_when_the_job_has_gone_over_to_another() -> None:
    """The next trial of a search computes in bfloat16: hours later it was still told to."""
    fold = waiting(0.0)
    peaks = replace(PEAKS, matrix={"float32": peak(1e12), "bfloat16": peak(2e12)})
    fold.bind_peaks("example", peaks)
    applied(fold, [ExecutableRan(1, 0.09, 0.001, at(12)) for _ in range(9)])

    def advice(now: float) -> set[str]:
        return {piece["condition"] for piece in fold.snapshot(at(now)).to_dict()["advice"]}

    assert "slow_element_type" in advice(12)
    fold.apply(created(2))
    half = Cost({"bfloat16": 6e10}, {"bfloat16": 6e10}, bytes=1e6)
    fold.analysed(2, ModuleCost("half", half, (OperationCost("dot", "dot", "", "", "", 1, half),)))
    fold.apply(ExecutableRan(2, 0.09, 0.001, at(100)))
    applied(fold, [step(100 + i, 100 + i / 10, 100 + (i + 1) / 10, runs=(2,)) for i in range(100)])
    assert "slow_element_type" not in advice(110)


def test_the_cases_have_the_keys_of_a_real_document() -> None:
    """A key that is renamed where documents are made would leave advice silent."""
    real = documents.keys(waiting(0.03).snapshot(at(12)).to_dict())
    # Those of functions and of the persistent cache are compared with a real process's, tests/end_to_end/test_advice.py,
    # and the clocks are told in tests/derive/test_throttling.py.
    elsewhere = (
        ".operations",
        ".loops.*.profile",
        ".functions",
        ".devices[].memory",
        ".devices[].clocks",
        ".process",
        ".executables[].memory.",
        ".with_gradients",  # no key: a field of the view
    )
    made_up = {key for key in documents.keys(documents.everything_wrong()) if not key.startswith(elsewhere)}
    assert made_up - real == set()
