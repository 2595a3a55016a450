"""A loop that stands still: when the job is asked for its stacks, and what counts as a hang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.hangs import FIRST_SECONDS, LOST, MIN_SECONDS, PAUSES, STOPPED
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import (
    UNMARKED,
    CompilePhaseEnded,
    CompilePhaseStarted,
    LoopEnded,
    LoopEntered,
    MainThreadSampled,
    PhaseEnded,
    PhaseStarted,
    RunUnderWay,
    StacksTaken,
    StepCompleted,
)
from tests.derive.made_up import applied, at, created, new_fold, step

MAIN = 1


def stacks(time: float, *frames: str, activity: str = "waiting", thread: int = MAIN) -> StacksTaken:
    line = frames[0] if frames else "train.py:12 main"
    return StacksTaken(((thread, "MainThread", line, "lock.acquire", activity, frames or (line,)),), at(time))


def trained(steps: int = 20, every: float = 0.1, *, iterated: bool = True) -> tuple[Fold, float]:
    """A loop that has done so many steps, the last of which ended at the moment that is returned."""
    fold = new_fold()
    if iterated:
        fold.apply(LoopEntered("train", at(0)))
    for number in range(steps):
        start = number * every
        fold.apply(step(number, start, start + (every if iterated else 0.9 * every), runs=()))
        fold.stands_still(at(start + every))
    return fold, steps * every


def sampled() -> Fold:
    """A loop whose end nobody reports, of 3 s, whose thread was met at two lines of its function."""
    fold, _ = trained(5, iterated=False)
    for number in range(5, 30):
        start = number * 0.1
        rows = tuple(
            ("train", line, "", "processor", 0.05, 1) for line in ("train.py:10 main", "train.py:14 main")
        )
        fold.apply(MainThreadSampled(at(start), at(start + 0.1), rows))
        fold.apply(step(number, start, start + 0.09, runs=()))
        fold.stands_still(at(start + 0.1))
    return fold


def hung(fold: Fold, end: float, *frames: str, **told: Any) -> bool:
    """Whether it is a hang that nothing came for 16 s, and the job then tells that its thread has these frames."""
    assert fold.stands_still(at(end + 16.0)) is not None, "the job is asked"
    fold.apply(stacks(end + 16.5, *frames, **told))
    fold.stands_still(at(end + 17.0))
    return fold.hangs.now is not None


def test_an_iteration_that_ends_no_step_hangs_and_its_thread_is_named() -> None:
    fold, end = trained()
    fold.observation.last_heard = at(end)
    assert not fold.stands_still(at(end + 14.0))
    assert hung(fold, end, "lock.py:3 take", "train.py:12 main")
    (row,) = fold.snapshot(at(end + 20.0))["hangs"]
    assert (row["loop"], row["steps"], row["over"], row["seconds"]) == (
        "train",
        20,
        False,
        pytest.approx(20.0),
    )
    assert (row["line"], row["activity"]) == ("lock.py:3 take", "waiting")
    assert row["threads"] == [
        {"name": "MainThread", "of_loop": True, "frames": ["lock.py:3 take", "train.py:12 main"]}
    ]


def test_the_steps_with_which_the_device_was_not_seen_to_be_done_are_counted() -> None:
    fold, end = trained()
    fold.apply(StepCompleted("train", 17, at(end - 0.1), 0))
    assert hung(fold, end)
    (row,) = fold.snapshot(at(end + 20.0))["hangs"]
    assert (row["steps"], row["steps_in_flight"]) == (20, 2)
    unseen, end = trained()
    assert hung(unseen, end)
    (row,) = unseen.snapshot(at(end + 20.0))["hangs"]
    assert row["steps_in_flight"] is None
    assert row["steps_in_flight_reason"]


def test_the_steps_in_flight_of_a_loop_that_nobody_marked_are_those_of_its_calls() -> None:
    fold, every = applied(new_fold(), [created(1, "train")]), 0.1
    rows: list[Any] = []
    for number in range(1, 22):
        rows += [UNMARKED, number, at(number * every), at(number * every), 0, 0, 0, None, None, MAIN, 1]
    fold.apply_steps(rows)
    fold.apply(StepCompleted(UNMARKED, 19, at(2.1), 0))
    fold.apply(RunUnderWay(1, at(2.1), at(18.0)))
    assert hung(fold, 2.1)
    (row,) = fold.snapshot(at(20.0))["hangs"]
    assert (row["steps"], row["steps_in_flight"]) == (20, 1)


def test_it_has_a_span_as_soon_as_it_is_noticed_and_no_second_one() -> None:
    fold, end = trained()
    assert hung(fold, end, "lock.py:3 take", "train.py:12 main")
    fold.stands_still(at(end + 90.0))
    fold.apply(stacks(end + 91.0))
    fold.stands_still(at(end + 92.0))
    (span,) = [span for span in fold.spans.take() if span.name == "jax.hang"]
    assert (span.start, span.end) == (at(end), at(end + 17.0))
    assert dict(span.attributes) == {
        "jax.loop": "train", "jax.hang.steps": 20, "jax.hang.line": "lock.py:3 take", "jax.hang.activity": "waiting",
    }  # fmt: skip


def test_it_is_over_with_the_next_step_and_a_pause_as_long_is_none_again() -> None:
    fold, end = trained()
    assert hung(fold, end)
    fold.apply(step(20, end, end + 30.0, runs=()))
    (row,) = fold.snapshot(at(end + 31.0))["hangs"]
    assert (row["over"], row["seconds"]) == (True, pytest.approx(30.0))
    assert not fold.stands_still(at(end + 30.0 + PAUSES * 30.0 - 1))
    assert fold.stands_still(at(end + 30.0 + PAUSES * 30.0 + 1))


def test_what_was_on_its_way_when_the_job_fell_silent_moves_the_beginning() -> None:
    fold, end = trained()
    fold.observation.last_heard = at(end)
    assert fold.stands_still(at(end + 16.0))
    fold.stands_still(at(end + 22.0))
    assert fold.hangs.now is not None, "no answer"
    fold.apply(StepCompleted("train", 19, at(end + 0.2), 0))
    hang = fold.hangs.now
    assert hang is not None
    assert hang.began == at(end + 0.2)


def test_a_job_that_is_heard_of_but_has_not_answered_yet_is_waited_for() -> None:
    fold, end = trained()
    assert fold.stands_still(at(end + 16.0))
    fold.observation.last_heard = at(end + 20.0)
    assert not fold.stands_still(at(end + 30.0))
    assert fold.hangs.now is None


@pytest.mark.parametrize(
    "excuse",
    [
        CompilePhaseStarted("f", "backend", MAIN, at(2.1)),
        PhaseStarted("checkpoint", "train", at(2.1)),
        LoopEnded("train", at(2.1), 0),
    ],
)
def test_compiles_phases_and_the_end_of_the_loop_are_no_hang(excuse: Any) -> None:
    fold, end = trained()
    fold.apply(excuse)
    assert not fold.stands_still(at(end + 1200.0))


def test_the_time_of_a_compile_or_phase_is_no_pause_to_learn_from() -> None:
    fold, end = trained()
    fold.apply(CompilePhaseStarted("f", "backend", MAIN, at(end)))
    fold.apply(CompilePhaseEnded("f", "backend", MAIN, at(end), at(end + 60), 60 * 10**9, outermost=True))
    fold.apply(PhaseStarted("evaluation", None, at(end + 60)))
    fold.apply(PhaseEnded("evaluation", None, at(end + 60), at(end + 120), 0))
    assert not fold.stands_still(at(end + 120 + MIN_SECONDS - 1))
    assert fold.stands_still(at(end + 120 + MIN_SECONDS + 1))


def test_a_phase_excuses_a_loop_before_it_and_none_in_it() -> None:
    fold = new_fold()
    fold.apply(PhaseStarted("training", None, at(0)))
    fold.apply(LoopEntered("train", at(0.1)))
    for number in range(20):
        fold.apply(step(number, 0.1 + number / 10, 0.2 + number / 10))
    assert fold.stands_still(at(2.1 + MIN_SECONDS + 1))

    fold, end = trained()
    fold.apply(PhaseStarted("evaluation", "train", at(end)))
    fold.apply(LoopEntered("eval", at(end + 1)))
    fold.apply(step(0, end + 1, end + 2, loop="eval"))
    fold.apply(LoopEnded("eval", at(end + 2), 0))
    assert not fold.stands_still(at(end + 600)), "it evaluates what that loop has found"


def test_a_loop_whose_thread_has_ended_is_over() -> None:
    fold, end = trained(iterated=False)
    assert not hung(fold, end, thread=MAIN + 1)


def test_an_iteration_around_another_loop_hangs_on_its_own_thread() -> None:
    fold, end = trained()
    fold.apply(LoopEntered("eval", at(end)))
    fold.apply(step(0, end, end + 0.1, loop="eval"))
    fold.apply(LoopEnded("eval", at(end + 0.1), 0))
    assert hung(fold, end + 0.1, "callback.py:3 after")
    hang = fold.hangs.now
    assert hang is not None
    assert hang.loop == "train"


def test_the_first_step_of_a_pass_may_take_minutes_and_tells_nothing_of_pauses() -> None:
    fold, end = trained()
    fold.apply(LoopEnded("train", at(end), 0))
    fold.apply(LoopEntered("train", at(end)))
    assert not fold.stands_still(at(end + FIRST_SECONDS - 1))
    fold.apply(step(20, end, end + 60.0))
    assert not fold.stands_still(at(end + 60.0 + MIN_SECONDS - 1))
    assert fold.stands_still(at(end + 60.0 + MIN_SECONDS + 1))


def test_the_first_steps_are_none() -> None:
    fold, end = trained(9)
    assert not fold.stands_still(at(end + 1200.0))


def test_the_first_run_of_a_function_may_take_minutes() -> None:
    fold, end = trained()
    for until, is_long in ((16.0, False), (FIRST_SECONDS - 1.0, False), (FIRST_SECONDS + 1.0, True)):
        fold.apply(RunUnderWay(5, at(end), at(end + until)))
        assert (fold.stands_still(at(end + until)) is not None) == is_long
    fold, end = trained()
    fold.apply(RunUnderWay(5, at(end), at(end + 16.0)))
    fold.executables.runs_of = lambda run: 2  # type: ignore[method-assign]
    assert fold.stands_still(at(end + 16.0))


def silent(fold: Fold, end: float) -> None:
    """The job does not answer, and is a hang for that."""
    fold.observation.last_heard = at(end)
    assert fold.stands_still(at(end + 16.0)) is not None
    fold.stands_still(at(end + 22.0))
    assert fold.hangs.now is not None


def test_stacks_that_come_late_are_taken_all_the_same() -> None:
    fold, end = trained()
    silent(fold, end)
    fold.apply(stacks(end + 23.0, "train.py:12 main", activity="device"))
    fold.stands_still(at(end + 24.0))
    (row,) = fold.snapshot(at(end + 25.0))["hangs"]
    assert (row["line"], row["activity"], row["over"]) == ("train.py:12 main", "device", False)
    assert fold.hangs.now is not None
    assert not fold.hangs.now.silence, "it is told again, with its line"


def test_a_pause_in_which_the_process_was_stopped_is_none_to_learn_from() -> None:
    fold, end = trained()
    silent(fold, end)
    fold.hangs.silenced(f"the process does not answer: {STOPPED}")
    fold.apply(step(20, end, end + 3600.0, runs=()))
    assert fold.stands_still(at(end + 3600.0 + MIN_SECONDS + 1)) is not None


def test_time_in_which_the_watchdog_did_not_run_either_is_no_pause() -> None:
    fold, end = trained()
    fold.hangs.suspended(3600 * NANOSECONDS)
    assert fold.stands_still(at(end + 3610.0)) is None
    fold.apply(step(20, end, end + 3610.0, runs=()))
    assert fold.stands_still(at(end + 3610.0 + PAUSES * 10.0 + 1)) is not None
    fold.hangs.suspended(3600 * NANOSECONDS)
    fold.stands_still(at(end + 3610.0 + PAUSES * 10.0 + 3604.0))
    assert fold.hangs.now is None, "the answer is still waited for"


@pytest.mark.parametrize(
    ("call", "activity"),
    [("step", "unknown"), ("lock.acquire", "waiting"), ("open", "waiting"), ("acquire in orbax", "waiting")],
)
def test_a_thread_in_a_function_by_a_plain_name_may_wait_for_the_device(call: str, activity: str) -> None:
    fold, end = trained()
    assert fold.stands_still(at(end + 16.0)) is not None
    row = (MAIN, "MainThread", "train.py:12 main", call, "waiting", ("train.py:12 main",))
    fold.apply(StacksTaken((row,), at(end + 16.5)))
    fold.stands_still(at(end + 17.0))
    (hang,) = fold.snapshot(at(end + 18.0))["hangs"]
    assert hang["activity"] == activity


@pytest.mark.parametrize(
    ("call", "frame"),
    [
        ("input", "train.py:12 main"),
        ("cmd.cmdloop in jax", "cmd.py:1 cmdloop"),
        ("", "kernelbase.py:1 _input_request"),
    ],
)
def test_a_loop_that_asks_a_person_does_not_hang(call: str, frame: str) -> None:
    fold, end = trained()
    assert fold.stands_still(at(end + 16.0)) is not None
    row = (MAIN, "MainThread", "train.py:12 main", call, "waiting", (frame, "train.py:12 main"))
    fold.apply(StacksTaken((row,), at(end + 16.5)))
    fold.stands_still(at(end + 17.0))
    assert fold.hangs.now is None


@pytest.mark.parametrize(
    ("frames", "is_hang"),
    [
        (("queue.py:171 get", "train.py:12 main"), True),
        (("train.py:30 main",), False),  # behind the loop, whose end nobody reports
        (("train.py:12 other",), False),
        (("bdb.py:90 wait", "train.py:12 main"), False),  # somebody thinks
    ],
)
def test_a_loop_whose_end_is_not_reported_hangs_where_its_thread_is_still_in_it(
    frames: tuple[str, ...], is_hang: bool
) -> None:
    fold = sampled()
    assert hung(fold, 3.0, *frames) is is_hang
    assert not fold.stands_still(at(200.0 if not is_hang else 40.0)), "it is not asked again at once"


@given(st.lists(st.floats(0.01, 14.0), min_size=1, max_size=40))
def test_no_pause_below_the_least_is_ever_asked_about(pauses: list[float]) -> None:
    fold, end = trained()
    for number, pause in enumerate(pauses):
        assert not fold.stands_still(at(end + pause))
        fold.apply(step(20 + number, end, end + pause, runs=()))
        end += pause


def test_a_hang_is_over_when_the_thread_has_left_the_loop() -> None:
    """As where somebody interrupts a cell: nobody reports the end of a loop that was found."""
    fold = sampled()
    assert hung(fold, 3.0, "train.py:12 main")
    assert fold.stands_still(at(100.0)) is not None, "it is looked at again"
    fold.apply(stacks(100.5, "selectors.py:452 select"))
    fold.stands_still(at(101.0))
    assert fold.hangs.now is None
    assert fold.stands_still(at(1000.0)) is None


def test_a_found_loop_of_a_job_that_does_not_answer_may_be_over() -> None:
    fold, end = trained(30, iterated=False)
    fold.observation.last_heard = at(end)
    assert fold.stands_still(at(end + 16.0)) is not None
    fold.stands_still(at(end + 22.0))
    assert fold.hangs.now is None


def test_an_answer_that_is_lost_is_said_to_be() -> None:
    fold, end = trained()
    assert fold.stands_still(at(end + 16.0)) is not None
    fold.observation.last_heard = at(end + 31.0)
    fold.stands_still(at(end + 32.0))
    hang = fold.hangs.now
    assert hang is not None
    assert hang.silence == LOST
    (row,) = fold.snapshot(at(end + 33.0))["hangs"]
    assert (row["line"], row["activity"]) == (None, "unknown")  # it may wait for its device as the others do


def test_a_rest_that_was_none_of_the_loop_is_no_pause_to_learn_from() -> None:
    fold, end = trained()
    assert not hung(fold, end, "selectors.py:452 select", "bdb.py:1 wait")
    fold.apply(step(20, end + 3599.9, end + 3600.0))
    assert fold.stands_still(at(end + 3600.0 + MIN_SECONDS + 1)) is not None


def test_completions_that_are_seen_end_the_long_patience_with_a_host_that_may_only_wait() -> None:
    """Of steps of 2 s none can be seen: a host that waits for many of them looks idle."""
    fold, end = new_fold(), 80.0
    for number in range(40):
        fold.apply(step(number, 2.0 * number, 2.0 * (number + 1), runs=(1,)))
        if number == 1:
            fold.apply(StepCompleted("train", 1, at(4.0), 0))
    assert fold.stands_still(at(end + 16.0)) is None
    fold.apply(StepCompleted("train", 39, at(end), 0))
    assert fold.stands_still(at(end + 16.0)) is not None


def test_steps_that_come_together_have_no_pause_between_them_but_their_own() -> None:
    fold, end = trained()
    rows: list[Any] = []
    for number in range(100):
        rows += [
            "train",
            20 + number,
            at(end + number / 100),
            at(end + (number + 1) / 100),
            0,
            0,
            0,
            None,
            None,
            MAIN,
            0,
        ]
    fold.apply_steps(rows)
    assert hung(fold, end + 1.0)
    (row,) = fold.snapshot(at(end + 20.0))["hangs"]
    assert row["longest_pause_seconds"] == pytest.approx(0.1)
