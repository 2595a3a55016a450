"""Loops whose host dispatches an epoch in a moment, and waits for it, or not, when it has left the loop."""

from __future__ import annotations

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.events import LoopEnded, PhaseEnded, StepCompleted
from tests.derive.made_up import MILLISECOND, at, families, step
from tests.derive.timed_runs import watched


def epoch(fold: Fold, begin: float, first: int, *, steps: int = 30, per_step: float = 0.01) -> float:
    """Dispatch steps in a moment; returns when the device is done with them."""
    for number in range(steps):
        start = begin + number / 10_000
        fold.apply(step(first + number, start, start + 1e-4, runs=(1,)))
    return begin + steps * per_step


@pytest.mark.parametrize("elsewhere", ["epochs", "phases"])
def test_a_loop_lasts_until_the_device_is_done_with_its_last_step_wherever_the_host_is(
    elsewhere: str,
) -> None:
    """Each epoch is dispatched within 3 ms, and its losses are read after it, or at a checkpoint."""
    fold = watched({1: 0.01})
    for number in range(20):
        begin = 1 + 0.35 * number
        done = epoch(fold, begin, 30 * number)
        if elsewhere == "epochs":
            fold.apply(LoopEnded("train", at(begin + 0.003), 0))
        else:
            fold.apply(PhaseEnded("evaluation", None, at(begin + 0.003), at(begin + 0.35), 0))
        fold.apply(StepCompleted("train", 30 * number + 29, at(done), MILLISECOND))
        document = fold.snapshot(at(begin + 0.34)).to_dict()
    loop, run = document["loops"]["train"], document["process"]
    assert loop["steps_per_second"] == pytest.approx(100)
    assert loop["step_seconds"] == pytest.approx(0.01)
    assert loop["wall_seconds"] == pytest.approx(6.0)
    assert sum(loop["components"].values()) == pytest.approx(loop["wall_seconds"])
    assert loop["components"]["host"] == 0.0
    assert run["run_seconds"]["productive"] == pytest.approx(6.0, rel=0.1)


def test_steps_that_were_only_dispatched_show_no_rate() -> None:
    fold = watched({1: 0.014})
    epoch(fold, 1.0, 0)
    fold.apply(LoopEnded("train", at(1.01), 0))
    for after in (0.01, 0.2, 2.0):
        loop = fold.snapshot(at(1.01 + after)).to_dict()["loops"]["train"]
        assert (loop["steps_per_second"], loop["mfu"]) == (None, None)
        assert "may be ahead" in loop["steps_per_second_reason"]


def test_the_time_of_dispatched_steps_is_charged_when_their_end_is_known() -> None:
    fold = watched({1: 0.1})
    done = epoch(fold, 1.0, 0, per_step=0.1)
    fold.apply(LoopEnded("train", at(1.003), 0))
    before = fold.snapshot(at(3.9)).to_dict()["process"]["run_seconds"]
    assert sum(before.values()) == pytest.approx(1.0)
    fold.apply(StepCompleted("train", 29, at(done), MILLISECOND))
    after = fold.snapshot(at(4.5)).to_dict()["process"]["run_seconds"]
    assert (after["productive"], after["other"]) == (pytest.approx(3.0), pytest.approx(0.5))


def test_a_stretch_with_a_pause_in_which_the_device_may_have_worked_is_in_no_rate() -> None:
    """No end of an epoch is seen: only one step in the middle of each."""
    fold = watched({1: 0.01})
    for number in range(20):
        begin = 1 + 0.5 * number
        epoch(fold, begin, 30 * number)
        fold.apply(LoopEnded("train", at(begin + 0.003), 0))
        fold.apply(StepCompleted("train", 30 * number + 14, at(begin + 0.15), MILLISECOND))
        loop = fold.snapshot(at(begin + 0.4)).to_dict()["loops"]["train"]
        assert loop["steps_per_second"] is None or loop["steps_per_second"] == pytest.approx(100, rel=0.01)


def test_where_no_end_is_ever_seen_epochs_that_were_only_dispatched_show_no_rate() -> None:
    fold = watched({1: 0.01})
    for number in range(12):
        begin = 1 + 2.0 * number
        epoch(fold, begin, 30 * number)
        fold.apply(LoopEnded("train", at(begin + 0.003), 0))
        loop = fold.snapshot(at(begin + 1.9)).to_dict()["loops"]["train"]
        assert (loop["steps_per_second"], loop["mfu"]) == (None, None)


def test_an_epoch_that_is_dispatched_in_a_moment_is_not_taken_for_one_step() -> None:
    """Each epoch's thirty steps take the device 30 s; a completion is seen each second or so."""
    fold = watched({1: 1.0})
    for number in range(6):
        begin = 1.0 + 32 * number
        epoch(fold, begin, 30 * number, per_step=1.0)
        fold.apply(LoopEnded("train", at(begin + 0.003), 0))
        for done in range(30):
            fold.apply(StepCompleted("train", 30 * number + done, at(begin + done + 1), MILLISECOND))
            snapshot = fold.snapshot(at(begin + done + 1.5))
    assert snapshot.to_dict()["loops"]["train"]["step_seconds"] == pytest.approx(1.0)
    histogram = families(snapshot)["jaxobs_step_seconds"]["train",]
    assert (histogram.count, histogram.sum) == (180, pytest.approx(180.0))
