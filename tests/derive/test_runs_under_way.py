"""A run that lasts for long is known of while it lasts."""

from __future__ import annotations

import pytest

from jaxobs.model.events import Event, ExecutableRan, FunctionWatched, ProbeReported, RunUnderWay
from tests.derive.made_up import applied, at, backend, compiled, created, new_fold, step

WATCHED: list[Event] = [backend(), created(1), FunctionWatched(-1, "f", "", at(0.1))]


def test_a_run_that_lasts_is_shown_until_the_device_is_done_with_it() -> None:
    fold = applied(new_fold(), [*WATCHED, RunUnderWay(1, at(1), at(4)), RunUnderWay(1, at(1), at(9))])
    process = fold.snapshot(at(10)).to_dict()["process"]
    assert process["running"] == {"function": "f", "seconds": pytest.approx(8.0)}
    assert process["running_reason"] is None
    fold.apply(ExecutableRan(1, 9.0, 0.5, at(10)))
    process = fold.snapshot(at(11)).to_dict()["process"]
    assert process["running"] is None
    assert "no run" in process["running_reason"]


def test_of_a_job_that_was_killed_the_run_under_way_is_known() -> None:
    for by_itself in (True, False):
        fold = applied(new_fold(), [*WATCHED, RunUnderWay(1, at(1), at(9))])
        fold.end(at(10), by_itself=by_itself)
        assert (fold.snapshot(at(10)).to_dict()["process"]["running"] is None) == by_itself


@pytest.mark.parametrize("by_itself", [True, False])
def test_its_time_is_productive_as_far_as_it_was_heard_of_where_its_end_was_not_seen(by_itself: bool) -> None:
    """The result of a call that was everything died as soon as the host had waited for it: goodput was 9 %."""
    fold = applied(new_fold(), [*WATCHED, compiled(0.5, 1.0), step(0, 1, 4, runs=(1,))])
    for second in range(6, 25):
        fold.apply(RunUnderWay(1, at(4), at(second)))
        fold.apply(ProbeReported(0, 0, 0, 0, 0.0, at(second)))
        fold.snapshot(at(second))
    fold.end(at(30), by_itself=by_itself)
    seconds = fold.run_time.seconds
    assert seconds["productive"] == pytest.approx(23.0)
    assert sum(seconds.values()) == pytest.approx(30.0)


def test_a_run_that_is_not_heard_of_any_more_is_not_said_to_run() -> None:
    fold = applied(new_fold(), [*WATCHED, RunUnderWay(1, at(1), at(4))])
    assert fold.snapshot(at(60)).to_dict()["process"]["running"] is None


def test_its_time_is_productive_while_it_lasts_and_is_not_charged_again_by_its_step() -> None:
    fold = applied(new_fold(), [*WATCHED, compiled(0.5, 1.0)])
    for second in range(4, 31):
        fold.apply(RunUnderWay(1, at(1), at(second)))
        fold.apply(ProbeReported(0, 0, 0, 0, 0.0, at(second)))
        fold.snapshot(at(second))
    during = fold.run_time.seconds["productive"]
    assert during == pytest.approx(29.0, abs=4.0)  # the first seconds are told when it is known that it lasts
    applied(fold, [ExecutableRan(1, 29.0, 0.5, at(30)), step(0, 1, 30, runs=(1,))])
    fold.apply(ProbeReported(0, 0, 0, 0, 0.0, at(31)))
    fold.snapshot(at(31))
    seconds = fold.run_time.seconds
    assert seconds["productive"] == pytest.approx(29.0, abs=1.5)
    assert sum(seconds.values()) <= 31.1
