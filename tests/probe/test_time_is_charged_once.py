"""Loops, steps and phases nested in any way: every nanosecond is charged exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.model.events import LoopEnded, PhaseEnded, StepEnded
from jaxobs.probe.steps import iteration as iteration_module
from jaxobs.probe.steps import loops as loops_module
from jaxobs.probe.steps import marks as marks_module
from jaxobs.probe.steps.marks import LibraryPhase
from tests.probe.marks_under_a_clock import Marks, own, run, steps_of


def test_an_inner_loop_charges_to_itself(marks: Marks) -> None:
    for _ in marks.steps(range(2)):
        marks.work(10)
        marks.ran(1)
        for _ in marks.steps(marks.slow_items(2, wait=1), loop="eval"):
            marks.work(100)
            marks.ran(2)
        marks.ran(3)
        marks.work(5)
    events = marks.events()
    assert [own(event) for event in steps_of(events)] == [15, 15]
    assert [event.runs for event in steps_of(events)] == [(1, 3)] * 2
    assert [own(event) for event in steps_of(events, "eval")] == [101] * 4
    assert [event.runs for event in steps_of(events, "eval")] == [(2,)] * 4


def test_phases_charge_to_themselves_and_a_checkpoint_is_told_to_its_step(marks: Marks) -> None:
    for _ in marks.steps([1]):
        marks.work(10)
        with marks.phase("checkpoint"):
            marks.work(7)
            marks.ran(5)
        with marks.phase("evaluation"):
            marks.work(2)
            for _ in marks.steps([1], loop="eval"):
                marks.work(40)
    events = marks.events()
    (step,) = steps_of(events)
    assert (own(step), step.checkpoint, step.runs) == (17, 7, ())
    assert [own(event) for event in steps_of(events, "eval")] == [40]
    phases = [(e.phase, e.inside, e.end - e.start, e.nested) for e in events if isinstance(e, PhaseEnded)]
    assert phases == [("checkpoint", "train", 7, 0), ("evaluation", "train", 42, 40)]


@pytest.mark.parametrize("beside", ["phase", "step"])
def test_what_goes_on_beside_a_loop_in_another_task_of_asyncio_takes_no_time_from_it(
    beside: str, marks: Marks
) -> None:
    mark = marks.phase("evaluation") if beside == "phase" else marks.step("other")

    async def trains() -> None:
        for _ in marks.steps(range(5)):
            marks.work(10)
            await asyncio.sleep(0)

    async def saves() -> None:
        with mark:
            for _ in range(3):
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(trains(), saves())

    asyncio.run(both())
    events = marks.events()
    assert [own(event) for event in steps_of(events)] == [10] * 5
    ended = [event.end - event.start for event in events if isinstance(event, PhaseEnded)]
    assert ended + [own(event) for event in steps_of(events, "other")] == [30]
    assert marks.loops.current.step is None


def test_what_lies_between_two_steps_is_theirs_but_for_what_others_claim(marks: Marks) -> None:
    for _ in range(2):
        with marks.step():
            marks.work(10)
        marks.work(3)
        with marks.phase("checkpoint"):
            marks.work(50)
        for _ in marks.steps([1], loop="eval"):
            marks.work(70)
    assert [own(event) for event in steps_of(marks.events())] == [10, 13]


def test_time_between_two_alternating_loops_is_charged_once(marks: Marks) -> None:
    for _ in range(3):
        with marks.step("generator"):
            marks.work(10)
        marks.work(4)
        with marks.step("discriminator"):
            marks.work(20)
        marks.work(2)
    charged = sum(own(event) for event in marks.events() if isinstance(event, StepEnded))
    assert charged == marks.time - 1000 - 2 - 4  # but for before the second loop's first step, and the last


PROGRAMS = st.recursive(
    st.tuples(st.just("work"), st.integers(0, 50)),
    lambda inner: st.one_of(
        st.tuples(st.just("steps"), st.sampled_from("ab"), st.integers(0, 3), st.lists(inner, max_size=3)),
        st.tuples(st.just("step"), st.sampled_from("ab"), st.lists(inner, max_size=3)),
        st.tuples(st.just("phase"), st.sampled_from(["checkpoint", "other"]), st.lists(inner, max_size=3)),
    ),
    max_leaves=25,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(PROGRAMS, max_size=6))
def test_every_nanosecond_inside_a_mark_is_charged_exactly_once(programs: list[Any]) -> None:
    """Loops take what is theirs, phases what is theirs (a checkpoint in a step: the step), however they are nested."""
    marks = Marks()
    clocks: list[Any] = [iteration_module, loops_module, marks_module]
    before = clocks[0].now
    for each in clocks:
        each.now = lambda: marks.time
    try:
        outside = between = 0
        with marks.phase("everything"):
            for program in programs:
                run(marks, program)
                if program[0] == "work":
                    outside += program[1]
    finally:
        for each in clocks:
            each.now = before
    charged = 0
    for event in marks.events():
        if isinstance(event, StepEnded):
            assert event.gap >= 0
            assert 0 <= event.nested <= event.end - event.start - event.checkpoint
            charged += own(event)
            between += event.gap
        elif isinstance(event, LoopEnded):
            charged += event.input_wait
        elif isinstance(event, PhaseEnded) and event.phase != "everything":
            assert 0 <= event.nested <= event.end - event.start
    # Time of phases other than checkpoints within steps: known from the phases themselves, innermost first.
    assert charged <= marks.time - 1000
    if not _has_phase(programs):
        assert charged - between + outside == marks.time - 1000
        assert between <= outside


def _has_phase(programs: list[Any]) -> bool:
    return any(
        part[0] == "phase" or _has_phase(part[-1] if isinstance(part[-1], list) else []) for part in programs
    )


def test_the_beginning_of_a_phase_is_told_as_well_as_its_end(marks: Marks) -> None:
    marks.work(7)
    with marks.phase("checkpoint"):
        marks.work(5)
    [ended] = marks.events()
    assert [(begun.phase, begun.inside, begun.time) for begun in marks.phases_started] == [
        ("checkpoint", None, ended.start)
    ]


def test_phases_that_overlap_leave_none_behind(marks: Marks) -> None:
    """Tasks of asyncio on one thread, each with a phase of its own, which end in any order."""
    for order in itertools.permutations(range(3)):
        entered = [marks.phase(name) for name in ("restore", "evaluation", "export")]
        for phase in entered:
            phase.__enter__()
        for left, number in enumerate(order, 1):
            entered[number].__exit__(None, None, None)
            assert marks.loops.current.phase is max(
                (entered[later] for later in order[left:]), key=entered.index, default=None
            )


def test_a_phase_that_is_entered_within_itself_is_not_around_itself(marks: Marks) -> None:
    again, other = marks.phase("evaluation"), marks.phase("export")
    with again, again, other, again, LibraryPhase(marks.loops, "restore", tentative=False):
        marks.work(1)
    assert marks.loops.current.phase is None
    assert next(event.phase for event in marks.events()) == "restore"


@pytest.mark.parametrize("caught", [True, False])
def test_a_phase_whose_end_a_signal_handler_prevented_ends_with_the_one_around_it(
    marks: Marks, caught: bool
) -> None:
    def interrupted() -> None:
        marks.phase("export").__enter__()
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt), marks.phase("evaluation"):
        if caught:
            with contextlib.suppress(KeyboardInterrupt):
                interrupted()
        else:
            interrupted()
    assert marks.loops.current.phase is None
