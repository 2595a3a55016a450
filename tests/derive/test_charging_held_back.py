"""What holds the charging of the process's time back, and for how long."""

from __future__ import annotations

import pytest

from jaxobs.derive.fold import Fold
from jaxobs.model.events import (
    UNMARKED,
    CompilePhaseStarted,
    LoopEnded,
    LoopEntered,
    PhaseEnded,
    PhaseStarted,
    ProbeReported,
)
from tests.derive.made_up import applied, at, compiled, created, new_fold, run_seconds, step

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
    assert run_seconds(fold, 503.0)["other"] == pytest.approx(302.0)


def test_a_phase_whose_end_was_lost_holds_nothing_back() -> None:
    fold = applied(new_fold(), [step(i, 1.0 + i, 2.0 + i) for i in range(60)])
    applied(fold, [LoopEnded("train", at(61.0), 0), PhaseStarted("checkpoint", None, at(61.0))])
    assert sum(run_seconds(fold, 63.0).values()) == pytest.approx(61.0)
    applied(fold, [step(60 + i, 64.0 + i, 65.0 + i) for i in range(60)])
    fold.apply(ProbeReported(1_000, 5, 0, 0, 0.0, at(124.0)))
    charged = run_seconds(fold, 124.0)
    assert charged["productive"] == pytest.approx(120.0)
    assert sum(charged.values()) == pytest.approx(124.0)


def test_a_phase_that_goes_on_while_other_events_are_lost_counts_from_what_was_charged_on() -> None:
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0)])
    fold.apply(PhaseStarted("checkpoint", None, at(2.0)))
    fold.apply(ProbeReported(1_000, 5, 0, 0, 0.0, at(10.0)))
    assert run_seconds(fold, 10.0)["other"] == pytest.approx(8.0)
    fold.apply(PhaseEnded("checkpoint", None, at(2.0), at(20.0), 0))
    applied(fold, [step(1, 20.0, 21.0), LoopEnded("train", at(21.0), 0)])
    fold.apply(ProbeReported(1_100, 5, 0, 0, 0.0, at(40.0)))
    charged = run_seconds(fold, 40.0)
    assert charged["checkpoint"] == pytest.approx(10.0)
    assert charged["other"] == pytest.approx(8.0 + 19.0)
    assert sum(charged.values()) == pytest.approx(40.0)


def passing(fold: Fold, begin: float, end: float) -> dict[str, float]:
    """The seconds charged at the end of a time of which all is told and looked at every half minute."""
    for moment in range(int(begin), int(end), 30):
        fold.apply(ProbeReported(10, 0, 0, 0, 0.0, at(moment)))
        run_seconds(fold, moment)
    fold.apply(ProbeReported(10, 0, 0, 0, 0.0, at(end)))
    return run_seconds(fold, end)


def test_a_first_step_of_an_hour_is_waited_for_and_goodput_says_so_meanwhile() -> None:
    fold = applied(new_fold(), [compiled(10.0, 20.0), LoopEntered("epochs", at(20.0))])
    assert sum(passing(fold, 20.0, 3_600.0).values()) == pytest.approx(20.0)
    process = fold.snapshot(at(3_600.0)).to_dict()["process"]
    assert process["goodput"] is None
    assert process["goodput_reason"].startswith("what the last 59.7 min went into is known once the step")
    fold.apply(step(0, 20.0, 3_619.0, loop="epochs"))
    assert passing(fold, 3_619.0, 3_620.0)["productive"] == pytest.approx(3_599.0)


def test_of_a_long_phase_under_way_goodput_says_that_it_is_not_charged_yet() -> None:
    """It stood still for as long as an evaluation lasted, and did not say so."""
    fold = applied(new_fold(), [*(step(number, 1.0 + number, 2.0 + number) for number in range(100))])
    applied(fold, [LoopEnded("train", at(101.0), 0), PhaseStarted("evaluation", None, at(101.0))])
    reasons = [fold.snapshot(at(moment)).document["process"]["goodput_reason"] for moment in (105.0, 161.0)]
    assert reasons[0] is None
    assert reasons[1].startswith(
        "what the last 60 s went into is known once the step, compile, phase or loop"
    )


def test_a_phase_around_a_loop_holds_nothing_back() -> None:
    fold = applied(new_fold(), [PhaseStarted("training", None, at(0.5)), LoopEntered("train", at(1.0))])
    applied(fold, [step(number, 1.0 + number, 2.0 + number) for number in range(100)])
    assert passing(fold, 101.0, 101.5)["productive"] == pytest.approx(100.0)
    assert fold.snapshot(at(101.5)).to_dict()["process"]["goodput"] == pytest.approx(100 / 101)
    fold.apply(LoopEnded("train", at(101.0), 0))  # and what follows in the phase is known at its end
    assert sum(passing(fold, 101.0, 300.0).values()) == pytest.approx(101.0)


@pytest.mark.parametrize("category", ["compile", "checkpoint"])
def test_what_was_under_way_when_the_job_was_killed_is_charged_to_its_category(category: str) -> None:
    fold = applied(new_fold(), [LoopEntered("train", at(1.0))])
    applied(fold, [step(number, 1.0 + number, 2.0 + number) for number in range(60)])
    if category == "compile":
        fold.apply(CompilePhaseStarted("train_step", "backend", 1, at(61.0)))
    else:
        applied(fold, [LoopEnded("train", at(61.0), 0), PhaseStarted("checkpoint", None, at(61.0))])
    passing(fold, 61.0, 1_261.0)
    fold.end(at(1_261.0), by_itself=False)
    charged = run_seconds(fold, 1_261.0)
    assert (charged["productive"], charged[category]) == (pytest.approx(60.0), pytest.approx(1_200.0))
    assert fold.snapshot(at(1_261.0)).to_dict()["process"]["goodput"] == pytest.approx(60 / 1_261)


@pytest.mark.parametrize("category", ["compile", "checkpoint"])
def test_what_takes_longer_than_an_hour_is_charged_to_its_category(category: str) -> None:
    compiles = CompilePhaseStarted("f", "backend", 1, at(2.0)), compiled(2.0, 4_202.0)
    saves = PhaseStarted("checkpoint", None, at(2.0)), PhaseEnded("checkpoint", None, at(2.0), at(4_202.0), 0)
    began, ended = compiles if category == "compile" else saves
    fold = applied(new_fold(), [step(0, 1.0, 2.0), LoopEnded("train", at(2.0), 0), began])
    passing(fold, 2.0, 4_202.0)
    fold.apply(ended)
    charged = passing(fold, 4_202.0, 6_000.0)
    assert (charged[category], charged["other"]) == (pytest.approx(4_200.0), pytest.approx(1_798.0))
