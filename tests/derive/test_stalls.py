"""Time in which a loop stands still, and time that is not known yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.hangs import MIN_STEPS
from jaxobs.derive.loops.stretches import IN_FLIGHT
from jaxobs.model.events import (
    CompilePhaseStarted,
    Event,
    ExecutableRan,
    LoopEnded,
    PhaseStarted,
    ProbeReported,
)
from tests.derive.made_up import (
    applied,
    at,
    check,
    compiled,
    families,
    new_fold,
    run_seconds,
    sound_events,
    step,
)  # fmt: skip

ORDINARY = 100  # steps of a tenth of a second before something happens


def stepped(steps: int = ORDINARY, length: float = 0.1, loop: str = "train") -> Fold:
    """A loop that has stepped regularly for ten seconds from second 10 on, each step beginning where one ended."""
    ended = [step(i, 10 + i * length, 10 + (i + 1) * length, loop=loop) for i in range(steps)]
    return applied(new_fold(), ended)


def after(fold: Fold) -> dict[str, float]:
    """A step from second 20 on that took 100 s, and the end of the loop."""
    applied(fold, [step(ORDINARY, 20.0, 120.0), LoopEnded("train", at(120), 0)])
    return run_seconds(fold, 120.0)


def test_what_is_still_on_its_way_is_not_charged_to_something_else() -> None:
    """The job reports once a second, later where the machine is busy; a snapshot may be taken at any time."""
    fold = applied(new_fold(), [compiled(1.0, 2.0), ProbeReported(0, 0, 0, 0, 0.0, at(2.5))])
    assert sum(run_seconds(fold, 6.0).values()) == pytest.approx(2.5)
    steps = [step(i, 2.5 + i, 3.5 + i) for i in range(3)]
    applied(fold, [*steps, LoopEnded("train", at(5.5), 0), ProbeReported(0, 0, 0, 0, 0.0, at(6.0))])
    charged = run_seconds(fold, 6.2)
    assert charged["productive"] == pytest.approx(3.0)
    assert charged["other"] == pytest.approx(0.5 + 0.5)


def test_a_job_that_reports_nothing_any_more_does_not_stop_the_clock() -> None:
    fold = applied(new_fold(), [ProbeReported(0, 0, 0, 0, 0.0, at(2.5))])
    assert sum(run_seconds(fold, 62.0).values()) == pytest.approx(2.5)
    assert sum(run_seconds(fold, 63.0).values()) == pytest.approx(63.0)


def watched(fold: Fold, until: int) -> Fold:
    """The watchdog looks once a second, from second 21 on, at a job that does not answer."""
    for moment in range(21, until):
        fold.stands_still(at(moment))
    return fold


def test_while_a_loop_stands_still_its_time_is_stalled_already() -> None:
    fold = watched(stepped(), 35)
    assert run_seconds(fold, 35.0)["stalled"] == 0.0
    assert sum(run_seconds(fold, 35.0).values()) == pytest.approx(20.0)
    watched(fold, 51)
    for moment in range(51, 110):
        charged = run_seconds(fold, float(moment))
        assert charged["stalled"] == pytest.approx(moment - 20.0)
        assert charged["other"] == pytest.approx(0.0)
    goodput = families(fold.snapshot(at(110)))["jaxobs_goodput_ratio"][()]
    assert goodput == pytest.approx(10.0 / 110.0, rel=0.01)
    charged = after(fold)  # and when the step ends after all, it is not charged again
    assert charged["stalled"] == pytest.approx(90.0)
    assert charged["productive"] == pytest.approx(20.0)
    assert sum(charged.values()) == pytest.approx(120.0)
    assert run_seconds(fold, 300.0)["stalled"] == pytest.approx(90.0)


def test_a_long_step_in_which_the_job_gets_on_is_not_stalled() -> None:
    """As one with an evaluation in it that nobody marked."""
    fold = stepped()
    for moment in range(21, 120):
        fold.apply(ExecutableRan(1, 0.5, 0.0, at(moment)))
        fold.stands_still(at(moment))
    charged = after(fold)
    assert (charged["stalled"], charged["productive"]) == (0.0, pytest.approx(110.0))


@pytest.mark.parametrize("held", ["phase", "phase inside", "compile"])
def test_what_is_under_way_is_a_reason_before_it_ends(held: str) -> None:
    fold = stepped()
    if held == "compile":
        fold.apply(CompilePhaseStarted("f", "backend", 1, at(20.0)))
    else:
        fold.apply(PhaseStarted("checkpoint", "train" if held == "phase inside" else None, at(20.0)))
    charged = run_seconds(watched(fold, 110), 110.0)
    assert sum(charged.values()) == pytest.approx(20.0)
    assert charged["stalled"] == 0.0


def test_an_evaluation_of_many_steps_inside_a_step_is_no_stall() -> None:
    fold = stepped()
    for number in range(60):
        fold.apply(step(number, 20.0 + number, 21.0 + number, loop="eval"))
        fold.stands_still(at(21.0 + number))
        assert run_seconds(fold, 21.0 + number)["stalled"] == 0.0


def test_a_loop_of_single_steps_that_ended_is_not_said_to_hang() -> None:
    """`with obs.step()` never says that it is over; between its steps lies some time."""
    fold = applied(new_fold(), [step(i, 10 + i / 10, 10.09 + i / 10, gap=0.01) for i in range(ORDINARY)])
    charged = run_seconds(watched(fold, 200), 200.0)
    assert charged["stalled"] == 0.0
    assert charged["other"] > 170.0


def test_slow_steps_of_an_iteration_are_waited_for() -> None:
    """Steps of two minutes, of which a snapshot is taken every ten seconds."""
    fold = new_fold()
    for number in range(5):
        for moment in range(0, 120, 10):
            run_seconds(fold, 10.0 + 120 * number + moment)
        fold.apply(step(number, 10.0 + 120 * number, 130.0 + 120 * number))
    fold.apply(LoopEnded("train", at(610.0), 0))
    charged = run_seconds(fold, 610.0)
    assert charged["productive"] >= 3 * 120.0
    assert sum(charged.values()) == pytest.approx(610.0)


regular = st.builds(
    lambda count, length, begin: [
        step(i, begin + i * length, begin + (i + 1) * length) for i in range(count)
    ],
    st.integers(5 * MIN_STEPS, 80), st.floats(0.001, 2.0), st.floats(0.0, 20.0),
)  # fmt: skip


@given(regular, st.lists(sound_events | st.integers(0, 200), max_size=25))
def test_whatever_happens_no_category_falls_and_together_they_are_no_more_than_the_age(
    steps: list[Event], stream: list[Event | int]
) -> None:
    fold = applied(new_fold(), steps)
    now, before = 200.0, check(fold.snapshot(at(200.0)), {})
    for item in stream:
        if isinstance(item, int):
            now += item
            before = check(fold.snapshot(at(now)), before)
        else:
            fold.apply(item)
    last = fold.snapshot(at(now + 5_000))
    check(last, before)
    charged = last.to_dict()["process"]["run_seconds"]
    # Nothing holds the charging back for ever: all but the usual time of a step that hangs.
    assert sum(charged.values()) >= now + 5_000 - IN_FLIGHT * 5.0
