"""Loops whose host dispatches an epoch in a moment, and waits for it, or not, when it has left the loop."""

from __future__ import annotations

from typing import Any

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.events import (
    ExecutableRan,
    LoopEnded,
    PhaseEnded,
    StepCompleted,
)
from tests.derive.made_up import (
    MILLISECOND,
    at,
    created,
    families,
    module,
    step,
)
from tests.derive.timed_runs import watched


@pytest.mark.parametrize("elsewhere", ["epochs", "phases"])
def test_a_loop_that_dispatches_ahead_and_waits_outside_lasts_until_the_device_is_done(
    elsewhere: str,
) -> None:
    """Each epoch is dispatched within 3 ms, and its losses are read after it, or at a checkpoint."""
    fold = watched({1: 0.01})
    for epoch in range(20):
        begin, first = 1 + 0.35 * epoch, 30 * epoch
        for number in range(30):
            start = begin + number / 10_000
            fold.apply(step(first + number, start, start + 1e-4, runs=(1,)))
        fold.apply(StepCompleted("train", first, at(begin + 0.01), MILLISECOND))
        if elsewhere == "epochs":
            fold.apply(LoopEnded("train", at(begin + 0.003), 0))
        else:
            fold.apply(PhaseEnded("evaluation", None, at(begin + 0.003), at(begin + 0.35), 0))
        document = fold.snapshot(at(begin + 0.34)).to_dict()
    loop, run = document["loops"]["train"], document["process"]
    assert loop["steps_per_second"] == pytest.approx(100, rel=0.05)
    assert loop["step_seconds"] == pytest.approx(0.01, rel=0.08)
    assert loop["wall_seconds"] == pytest.approx(6.0, rel=0.08)
    assert sum(loop["components"].values()) == pytest.approx(loop["wall_seconds"])
    assert loop["components"]["host"] == 0.0
    assert run["run_seconds"]["productive"] == pytest.approx(6.0, rel=0.1)


def test_steps_that_were_only_dispatched_show_no_rate() -> None:
    """An epoch of 30 steps is dispatched in 10 ms, and its losses are read after it. The first call alone was timed."""
    fold = watched({1: 0.014}, samples=1)
    for number in range(30):
        start = 1 + number / 3_000
        fold.apply(step(number, start, start + 1 / 3_000, runs=(1,)))
    fold.apply(LoopEnded("train", at(1.01), 0))
    for after in (0.01, 0.2, 2.0):
        loop = fold.snapshot(at(1.01 + after)).to_dict()["loops"]["train"]
        assert (loop["steps_per_second"], loop["mfu"]) == (None, None)
        assert "may be ahead" in loop["steps_per_second_reason"]


def epochs(
    fold: Fold, count: int, *, timed_from: int, per_run: float = 0.01, pause: float = 0.0
) -> list[Any]:
    """Dispatch epochs of 20 steps in a moment, which take the device 0.2 s, and `pause` seconds of something else.

    Runs are timed, as `per_run` seconds, in epoch `timed_from`. Returns the loop at the end of each epoch.
    """
    shown = []
    for epoch in range(count):
        begin = 1 + (0.2 + pause) * epoch
        for number in range(20):
            start = begin + number / 10_000
            fold.apply(step(20 * epoch + number, start, start + 1e-4, runs=(1,)))
        fold.apply(LoopEnded("train", at(begin + 0.002), 0))
        if epoch >= timed_from:
            for _ in range(3):
                fold.apply(ExecutableRan(1, per_run, 0.0, at(begin + 0.1)))
        shown.append(fold.snapshot(at(begin + 0.19)).to_dict()["loops"]["train"])
    return shown


@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_epochs_before_any_run_was_timed_are_in_no_rate(pause: float) -> None:
    fold = watched({1: 0.016}, samples=1)
    shown = epochs(fold, 12, timed_from=3, pause=pause)
    rates = [loop["steps_per_second"] for loop in shown]
    assert rates[:3] == [None] * 3
    assert rates[3:] == pytest.approx([100.0] * 9, rel=0.05)
    assert shown[-1]["wall_seconds"] == pytest.approx(9 * 0.2, rel=0.05)
    assert shown[-1]["steps"] == 12 * 20
    (run,) = fold.snapshot(at(9)).to_dict()["executables"]
    # Seconds of all runs, wherever they are shown; the first epochs' by a first call that took 1.6 times as long.
    assert run["seconds"] == pytest.approx(12 * 20 * 0.01, rel=0.15)


def test_where_no_run_can_be_timed_epochs_that_were_only_dispatched_show_no_rate() -> None:
    shown = epochs(watched({1: 0.01}, samples=0), 12, timed_from=99)
    assert [loop["steps_per_second"] for loop in shown] == [None] * 12
    assert [loop["mfu"] for loop in shown] == [None] * 12


@pytest.mark.parametrize("per_run", [0.0093, 0.0107, 0.018])
def test_an_epoch_lasts_as_long_as_its_device_where_samples_are_some_per_cent_off(per_run: float) -> None:
    """Even where they are nearly twice too long: an epoch is over when the next one begins."""
    shown = epochs(watched({1: per_run}), 30, timed_from=0, per_run=per_run)
    assert shown[-1]["steps_per_second"] == pytest.approx(100, rel=0.04)


@pytest.mark.parametrize("seen", [True, False])
def test_a_burst_that_was_too_slow_makes_no_epoch_longer_that_waits_for_its_device(seen: bool) -> None:
    """Each epoch waits for its device, whose first runs took 1.4 times as long as all others."""
    fold = watched({1: 0.014})
    for epoch in range(5):
        begin, first = 1 + 0.7 * epoch, 50 * epoch
        for number in range(50):
            start = begin + number / 100
            fold.apply(step(first + number, start, start + 0.01, runs=(1,)))
            if seen and number == 20:
                fold.apply(StepCompleted("train", first + number, at(start + 0.009), MILLISECOND))
        fold.apply(LoopEnded("train", at(begin + 0.5), 0))
    loop = fold.snapshot(at(6.0)).to_dict()["loops"]["train"]
    if seen:
        assert loop["steps_per_second"] == pytest.approx(100, rel=0.01)
    else:
        assert loop["steps_per_second"] is None  # it might as well dispatch ahead
    assert loop["wall_seconds"] == pytest.approx(2.5, rel=0.01)


def test_a_loop_that_dispatches_ahead_does_so_after_hundreds_of_epochs_too() -> None:
    """A snapshot a second, as the agent makes them: what is owed is never much beside all that went before."""
    fold = watched({1: 0.01})
    told = 2.0
    for epoch in range(400):
        begin, first = 1 + 0.35 * epoch, 30 * epoch
        while told < begin:
            document = fold.snapshot(at(told)).to_dict()
            told += 1.0
        for number in range(30):
            start = begin + number / 1_000
            fold.apply(step(first + number, start, start + 1e-3, runs=(1,)))
        fold.apply(LoopEnded("train", at(begin + 0.03), 0))
        fold.apply(StepCompleted("train", first, at(begin + 0.01), MILLISECOND))
    loop = document["loops"]["train"]
    assert loop["wall_seconds"] == pytest.approx(0.3 / 0.35 * (told - 2), rel=0.02)
    assert loop["steps_per_second"] == pytest.approx(100, rel=0.05)
    assert loop["components"]["unknown"] == pytest.approx(0.0, abs=0.5)


def test_an_epoch_that_is_dispatched_in_a_moment_is_not_taken_for_one_step() -> None:
    """Each epoch's thirty steps are dispatched within 0.15 s and take the device 30 s."""
    fold, told, snapshot = watched({1: 1.0}), 1, None
    for epoch in range(6):
        begin = 1.0 + 32 * epoch
        for number in range(30):
            start = begin + number * 0.005
            fold.apply(step(30 * epoch + number, start, start + 0.005, runs=(1,)))
        fold.apply(LoopEnded("train", at(begin + 0.15), 0))
        while told < begin + 31:
            told += 1
            snapshot = fold.snapshot(at(told))
    assert snapshot is not None
    assert snapshot.to_dict()["loops"]["train"]["step_seconds"] == pytest.approx(1.0, rel=0.02)
    histogram = families(snapshot)["jaxobs_step_seconds"]["train",]
    assert histogram.sum == pytest.approx(histogram.count, rel=0.02)
    assert histogram.count > 100


def test_a_few_steps_that_nothing_is_known_of_hide_no_known_rate() -> None:
    fold = watched({1: 0.01, 2: 0.01}, samples=9)
    fold.apply(created(3, "new"))
    fold.analysed(3, module(fingerprint="h3"))
    for number in range(500):
        start = 1 + number / 100
        fold.apply(step(number, start, start + 0.01, runs=(1,)))
        if number % 100 == 99:
            fold.snapshot(at(start + 0.01))
    fold.apply(LoopEnded("train", at(6), 0))
    for number in range(5):
        start = 6.5 + number / 10_000
        fold.apply(step(500 + number, start, start + 1e-4, runs=(3,)))
    fold.apply(LoopEnded("train", at(6.5005), 0))
    for after in (1.0, 10.0, 20.0):
        loop = fold.snapshot(at(6.5 + after)).to_dict()["loops"]["train"]
        assert loop["steps_per_second"] == pytest.approx(100, rel=0.01)
