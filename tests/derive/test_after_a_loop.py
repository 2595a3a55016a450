"""What is told of a loop after its last step: while the job goes on, and when the job is over."""

from __future__ import annotations

from typing import Any

import pytest

from jaxobs.model.events import Event, LoopEnded, LoopEntered
from tests.derive.made_up import applied, at, families, main_thread, new_fold, step, waits

STEPS = [step(number, number, number + 1.0) for number in range(40)]
LOOP: list[Event] = [
    waits(),
    *STEPS,
    main_thread(0.0, 40.0, input=30.0, processor=10.0),
    LoopEnded("train", at(40.0), 0),
]


def train(fold: Any, now: float) -> dict[str, Any]:
    found: dict[str, Any] = fold.snapshot(at(now)).to_dict()["loops"]["train"]
    return found


def test_a_loop_that_ended_says_since_when_until_it_is_entered_again() -> None:
    fold = applied(new_fold(), LOOP)
    assert train(fold, 41.0)["left_seconds"] == pytest.approx(1.0)
    assert train(fold, 41.0)["steps_per_second"] == pytest.approx(1.0)
    later = train(fold, 100.0)
    assert (later["left_seconds"], later["steps_per_second"]) == (pytest.approx(60.0), None)
    fold.apply(LoopEntered("train", at(101.0)))
    again = train(fold, 102.0)
    assert (again["left_seconds"], again["left_seconds_reason"]) == (
        None, "its iteration is under way, or nobody marked it",
    )  # fmt: skip


@pytest.mark.parametrize("by_itself", [True, False])
def test_when_the_job_is_over_the_loop_has_the_figures_of_its_last_half_minute(by_itself: bool) -> None:
    fold = applied(new_fold(), LOOP)
    for seen in range(41, 100):
        fold.snapshot(at(seen))
    fold.end(at(100.0), by_itself=by_itself)
    snapshot = fold.snapshot(at(100.0))
    loop = snapshot.to_dict()["loops"]["train"]
    assert loop["steps_per_second"] == pytest.approx(1.0)
    assert loop["steps_per_second_reason"] == "of its last half minute, which ended 60 s before the run"
    assert loop["bottleneck"]["shares"] == train(applied(new_fold(), LOOP), 41.0)["bottleneck"]["shares"]
    gauges = ("jaxobs_mfu_ratio", "jaxobs_bottleneck_ratio", "jaxobs_bottleneck_info")
    assert not any(families(snapshot).get(name) for name in gauges), "now it has none"


def test_a_loop_that_ended_with_the_job_has_its_figures_without_a_note() -> None:
    fold = applied(new_fold(), LOOP)
    fold.end(at(40.5), by_itself=True)
    loop = train(fold, 40.5)
    assert (loop["steps_per_second"], loop["steps_per_second_reason"]) == (pytest.approx(1.0), None)


def test_a_step_that_an_exception_ended_is_no_pace() -> None:
    fold = applied(new_fold(), [waits(), step(0, 0.0, 0.03, failed=True), LoopEnded("train", at(0.03), 0)])
    fold.end(at(1.0), by_itself=True)
    loop = train(fold, 1.0)
    assert (loop["steps"], loop["steps_per_second"], loop["step_seconds"]) == (1, None, None)
    assert loop["steps_per_second_reason"] == "no step has ended but by an exception"


def test_a_loop_left_in_its_first_step_has_no_rate_as_none_has_ended() -> None:
    fold = applied(new_fold(), [LoopEntered("train", at(0.0)), LoopEnded("train", at(1.0), at(1.0))])
    assert train(fold, 2.0)["steps_per_second_reason"] == "no step has ended yet"
