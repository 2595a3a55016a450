"""What a step took beyond its usual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.pace import ENOUGH_STEPS, FACTOR, IN_A_ROW, MIN_STALL_SECONDS, Stalls
from jaxobs.model.events import (
    CompilePhaseStarted,
    Event,
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


def after(fold: Fold, **last: float) -> dict[str, float]:
    """A step from second 20 on that took 100 s, and the end of the loop."""
    applied(fold, [step(ORDINARY, 20.0, 120.0, **last), LoopEnded("train", at(120), 0)])  # type: ignore[arg-type]  # numbers by name
    return run_seconds(fold, 120.0)


def test_what_a_step_took_beyond_its_usual_time_is_stalled() -> None:
    charged = after(stepped())
    assert charged["stalled"] == pytest.approx(99.9)
    assert charged["productive"] == pytest.approx(10.1)
    assert sum(charged.values()) == pytest.approx(120.0)


@pytest.mark.parametrize("reason", ["wait", "checkpoint", "nested"])
def test_a_long_step_with_a_reason_is_not_stalled(reason: str) -> None:
    charged = after(stepped(), **{reason: 99.0})
    assert charged["stalled"] == 0.0
    assert charged["productive"] == pytest.approx(11.0)


def test_a_long_compile_in_a_step_is_not_stalled() -> None:
    fold = applied(stepped(), [compiled(20.5, 119.0)])
    charged = after(fold)
    assert (charged["stalled"], charged["compile"]) == (0.0, pytest.approx(98.5))


@pytest.mark.parametrize(("length", "stalled"), [(29.0, False), (31.0, True)])
def test_a_pause_shorter_than_the_least_is_in_the_loops_components_alone(
    length: float, stalled: bool
) -> None:
    fold = applied(stepped(), [step(ORDINARY, 20.0, 20.0 + length), LoopEnded("train", at(20.0 + length), 0)])
    assert (run_seconds(fold, 20.0 + length)["stalled"] > 0) is stalled


def test_too_few_steps_have_no_usual_time() -> None:
    stalls = Stalls()
    for _ in range(ENOUGH_STEPS - 1):
        stalls.add([0.1])
    stalls.add([1_000.0])
    assert stalls.seconds == 0.0


def test_a_host_that_runs_ahead_and_waits_is_not_stalled() -> None:
    """32 programs of 2 s each are in flight when the host waits for them, every hundredth step."""
    stalls = Stalls()
    for number in range(1_000):
        stalls.add([64.0 if number % 100 == 99 else 1e-5 if number % 100 < 32 else 2.0])
    assert stalls.seconds == 0.0


def test_steps_that_take_long_from_now_on_are_no_stalls() -> None:
    stalls = Stalls()
    for _ in range(ENOUGH_STEPS):
        stalls.add([0.1])
    for _ in range(200):
        stalls.add([60.0])
    assert stalls.seconds == pytest.approx(IN_A_ROW * 59.9)


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


def test_while_an_iteration_hangs_its_time_is_stalled_already() -> None:
    fold = stepped()
    assert run_seconds(fold, 20.0 + MIN_STALL_SECONDS - 1)["stalled"] == 0.0
    assert sum(run_seconds(fold, 45.0).values()) == pytest.approx(20.0)
    for moment in range(51, 110):
        charged = run_seconds(fold, float(moment))
        assert charged["stalled"] == pytest.approx(moment - 20.0)
        assert charged["other"] == pytest.approx(0.0)
    goodput = families(fold.snapshot(at(110)))["jaxobs_goodput_ratio"][()]
    assert goodput == pytest.approx(10.0 / 110.0, rel=0.01)
    charged = after(fold)  # and when the step ends after all, it is not charged again
    assert charged["stalled"] == pytest.approx(99.9)
    assert charged["productive"] == pytest.approx(10.1)
    assert sum(charged.values()) == pytest.approx(120.0)
    assert run_seconds(fold, 300.0)["stalled"] == pytest.approx(99.9)


def test_a_hang_that_was_explained_too_late_hides_no_later_one() -> None:
    fold = stepped()
    run_seconds(fold, 110.0)
    fold.apply(step(ORDINARY, 20.0, 120.0, wait=99.9))
    run_seconds(fold, 120.0)
    fold.apply(step(ORDINARY + 1, 120.0, 220.0))
    fold.apply(LoopEnded("train", at(220.0), 0))
    assert run_seconds(fold, 220.0)["stalled"] == pytest.approx(89.9 + 99.9, abs=1.0)


@pytest.mark.parametrize("held", ["phase", "phase inside", "compile"])
def test_what_is_under_way_is_a_reason_before_it_ends(held: str) -> None:
    fold = stepped()
    if held == "compile":
        fold.apply(CompilePhaseStarted("f", "backend", 1, at(20.0)))
    else:
        fold.apply(PhaseStarted("checkpoint", "train" if held == "phase inside" else None, at(20.0)))
    charged = run_seconds(fold, 110.0)
    assert sum(charged.values()) == pytest.approx(20.0)
    assert charged["stalled"] == 0.0


def test_an_evaluation_of_many_steps_inside_a_step_is_no_stall() -> None:
    fold = stepped()
    for number in range(60):
        fold.apply(step(number, 20.0 + number, 21.0 + number, loop="eval"))
        assert run_seconds(fold, 21.0 + number)["stalled"] == 0.0


def test_a_loop_of_single_steps_that_ended_is_not_said_to_hang() -> None:
    """`with obs.step()` never says that it is over; between its steps lies some time."""
    fold = applied(new_fold(), [step(i, 10 + i / 10, 10.09 + i / 10, gap=0.01) for i in range(ORDINARY)])
    charged = run_seconds(fold, 200.0)
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
    st.integers(ENOUGH_STEPS, 80), st.floats(0.001, 2.0), st.floats(0.0, 20.0),
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
    assert sum(charged.values()) >= now + 5_000 - FACTOR * 5.0


@given(st.lists(st.floats(0, 1e4), max_size=300))
def test_a_stall_is_no_more_than_the_step_it_is_of(own: list[float]) -> None:
    stalls = Stalls()
    for amount in own:
        before = stalls.seconds
        stalls.add([amount])
        assert before <= stalls.seconds <= before + amount
