"""What holds the charging of the process's time back, and for how long."""

from __future__ import annotations

import pytest

from jaxobs.model.events import UNMARKED, LoopEnded, PhaseEnded, PhaseStarted, ProbeReported
from tests.derive.made_up import applied, at, created, new_fold, run_seconds, step

MINUTES = 90.0  # of a step: longer than a loop that may be over is waited for


@pytest.mark.parametrize("gap", [0.0, 0.001])
def test_steps_of_minutes_are_productive_whether_or_not_their_loop_is_an_iteration(gap: float) -> None:
    fold, begin = new_fold(), 1.0
    for number in range(10):
        for moment in range(10, 90, 10):
            run_seconds(fold, begin + moment)
        fold.apply(step(number, begin, begin + MINUTES, gap=gap if number else 0.0))
        begin += MINUTES + gap
    charged = run_seconds(fold, begin)
    assert charged["initialisation"] == pytest.approx(MINUTES, abs=11.0)  # no step has ended in it
    assert charged["productive"] >= 9 * MINUTES
    assert charged["other"] < 1.0


def test_a_found_loop_of_minutes_a_step_is_productive_once_it_is_found() -> None:
    fold = applied(new_fold(), [created(1)])
    for number in range(1, 11):
        begin = MINUTES * number
        fold.apply_steps([UNMARKED, number, at(begin), at(begin), 0, 0, 1_000, None, None, 1, 1])
        for moment in range(10, 90, 10):
            charged = run_seconds(fold, begin + moment)
    assert charged["productive"] >= 8 * MINUTES
    assert charged["other"] < 1.0


def test_a_loop_of_single_steps_is_over_after_the_time_of_three_of_them() -> None:
    fold = applied(new_fold(), [step(0, 0.0, 100.0), step(1, 101.0, 201.0, gap=1.0)])
    assert sum(run_seconds(fold, 500.0).values()) == pytest.approx(201.0)
    assert run_seconds(fold, 502.0)["other"] == pytest.approx(301.0)


def test_a_phase_whose_end_was_lost_holds_nothing_back() -> None:
    fold = applied(new_fold(), [step(i, 1.0 + i, 2.0 + i) for i in range(60)])
    applied(fold, [LoopEnded("train", at(61.0), 0), PhaseStarted("checkpoint", None, at(61.0))])
    assert sum(run_seconds(fold, 63.0).values()) == pytest.approx(61.0)
    applied(fold, [step(60 + i, 64.0 + i, 65.0 + i) for i in range(60)])
    fold.apply(ProbeReported(1_000, 5, 0, 0, 0.0, at(124.0)))
    charged = run_seconds(fold, 124.0)
    assert charged["productive"] == pytest.approx(120.0)
    assert sum(charged.values()) == pytest.approx(124.0)


def test_a_phase_that_goes_on_while_other_events_are_lost_is_made_good_at_its_end() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0)])
    fold.apply(PhaseStarted("checkpoint", None, at(2.0)))
    fold.apply(ProbeReported(1_000, 5, 0, 0, 0.0, at(10.0)))
    assert run_seconds(fold, 10.0)["other"] == pytest.approx(8.0)
    fold.apply(PhaseEnded("checkpoint", None, at(2.0), at(20.0), 0))
    applied(fold, [step(1, 20.0, 21.0), LoopEnded("train", at(21.0), 0)])
    fold.apply(ProbeReported(1_100, 5, 0, 0, 0.0, at(40.0)))
    charged = run_seconds(fold, 40.0)
    assert charged["checkpoint"] == pytest.approx(18.0)
    assert sum(charged.values()) == pytest.approx(40.0)
