"""Steps, loops and phases: what is counted, and that every nanosecond is charged exactly once."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from jaxobs.flow.ring import Ring
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import LoopEnded, LoopEntered
from jaxobs.probe.steps.loops import Step, UnmarkedCalls
from jaxobs.vocabulary.text import MAX_LOOP_NAMES, OTHER
from tests.probe.marks_under_a_clock import Marks, own, steps_of


def test_a_turn_holds_the_wait_for_its_item_and_its_body(marks: Marks) -> None:
    for _ in marks.steps(marks.slow_items(3, wait=5), examples=256, tokens=lambda item: item * 10):
        marks.work(20)
        marks.ran()
    events = marks.events()
    assert [own(event) for event in steps_of(events)] == [25, 25, 25]
    assert [event.input_wait for event in steps_of(events)] == [5, 5, 5]
    assert [(event.examples, event.tokens) for event in steps_of(events)] == [(256, 0), (256, 10), (256, 20)]
    assert [event.runs for event in steps_of(events)] == [(1,)] * 3
    assert events[-1] == LoopEnded("train", marks.time, 0)


def test_epochs_go_on_counting_and_what_lies_between_them_is_not_the_loops(marks: Marks) -> None:
    for _ in range(2):
        for _ in marks.steps([1, 2]):
            marks.work(3)
        marks.work(1000)
    steps = steps_of(marks.events())
    assert [event.step for event in steps] == [0, 1, 2, 3]
    assert [own(event) for event in steps] == [3, 3, 3, 3]


def test_passes_under_too_many_names_are_passes_of_one_loop(marks: Marks) -> None:
    passes = MAX_LOOP_NAMES + 3
    for number in range(passes):
        list(marks.steps([1, 2], loop=f"epoch {number}"))
    events = marks.events()
    named = [f"epoch {number}" for number in range(MAX_LOOP_NAMES)]
    for told in (LoopEntered, LoopEnded):
        assert [event.loop for event in events if isinstance(event, told)] == [*named, OTHER, OTHER, OTHER]
    assert [event.step for event in steps_of(events, OTHER)] == list(range(6))


def test_of_a_loop_within_itself_it_is_said_once_that_both_are_counted(
    marks: Marks, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in marks.steps([1, 2]):
        for _ in range(2):
            with marks.step("train"):
                marks.work(5)
        for _ in marks.steps([1, 2], loop="eval"):
            marks.work(5)
    assert caplog.messages == [
        "jaxobs: loop 'train' is within itself, and the steps of both are counted: name one of them (loop=…)"
    ]


def test_the_first_step_alone_is_told_when_it_begins(marks: Marks) -> None:
    for _ in range(3):
        with marks.step("train"):
            marks.work(5)
    entered, first, *_ = marks.events()
    assert isinstance(entered, LoopEntered)
    assert (entered.loop, entered.time) == ("train", first.start)
    assert len(steps_of([first, *_])) == 3


@pytest.mark.parametrize("ran", [True, False])
def test_break_counts_the_turn_if_something_ran_in_it(marks: Marks, ran: bool) -> None:
    for item in marks.steps(marks.slow_items(5, wait=2), examples=8):
        marks.work(10)
        if item == 1:
            if ran:
                marks.ran()
            break
    events = marks.events()
    assert [(event.failed, event.examples) for event in steps_of(events)] == [(False, 8)] * (1 + ran)
    assert marks.loops.current.step is None
    # The wait for the item that was not used is input; the body of a turn that does not count is nobody's.
    assert events[-1].input_wait == (0 if ran else 2)


def test_an_exception_in_the_body_arrives_and_leaves_nothing_open(marks: Marks) -> None:
    error = RuntimeError("of the user")

    def train() -> None:
        for _ in marks.steps([1, 2]):
            marks.work(1)
            raise error

    with pytest.raises(RuntimeError) as caught:
        train()
    assert caught.value is error
    assert marks.loops.current.step is None
    with pytest.raises(RuntimeError), marks.step():
        raise error
    assert [event.failed for event in steps_of(marks.events())] == [True]
    assert marks.loops.current.step is None


def test_a_break_is_no_failure_of_a_step_within_the_generator(marks: Marks) -> None:
    def batches() -> Iterator[int]:
        for batch in range(5):
            with marks.step():
                yield batch

    for batch in batches():
        if batch == 2:
            break
    assert [event.failed for event in steps_of(marks.events())] == [False] * 3


def test_an_exception_of_the_iterator_arrives(marks: Marks) -> None:
    def items() -> Iterator[int]:
        yield 1
        marks.work(30)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(marks.steps(items()))
    events = marks.events()
    assert len(steps_of(events)) == 1
    assert events[-1].input_wait == 30
    assert marks.loops.current.step is None


def test_a_loop_whose_iterator_cannot_be_had_has_ended(marks: Marks) -> None:
    class Missing:
        def __iter__(self) -> Iterator[int]:
            marks.work(30)
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(marks.steps(Missing()))
    entered, ended = marks.events()
    assert (entered.loop, ended) == ("train", LoopEnded("train", marks.time, 30))
    assert marks.loops.current.step is None


def test_a_closed_or_forgotten_iterator_lets_go_of_its_step(marks: Marks) -> None:
    iterator = iter(marks.steps([1, 2, 3]))
    next(iterator)
    marks.ran()
    iterator.close()
    assert marks.loops.current.step is None
    stale = iter(marks.steps([1, 2, 3]))
    next(stale)
    with marks.step("other"):
        under_way = marks.loops.current.step
        del stale
        gc.collect()
        assert marks.loops.current.step is under_way


def test_it_has_the_length_of_what_it_wraps_and_is_no_more_iterable(marks: Marks) -> None:
    assert len(marks.steps([1, 2, 3])) == 3
    with pytest.raises(TypeError, match="has no len"):
        len(marks.steps(iter([1])))
    several: list[Any] = [[1], [], iter([])]
    assert [bool(marks.steps(items)) for items in several] == [True, False, True]
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        marks.steps(5)

    class Old:
        def __getitem__(self, index: int) -> int:
            return [7, 8][index]

    assert list(marks.steps(Old())) == [7, 8]


def test_the_item_is_not_kept_alive(marks: Marks) -> None:
    class Batch:
        pass

    for batch in marks.steps((Batch() for _ in range(3)), examples=lambda batch: 1):
        reference = weakref.ref(batch)
        del batch
        assert reference() is None


def test_threads_have_steps_of_their_own(marks: Marks) -> None:
    barrier = threading.Barrier(4)

    def train(run: int) -> None:
        barrier.wait()
        for _ in marks.steps(range(500)):
            marks.ran(run)
            with marks.step("inner"):
                marks.ran(-run)

    threads = [threading.Thread(target=train, args=(run,)) for run in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = marks.events()
    assert Counter(event.runs for event in steps_of(events)) == {(run,): 500 for run in range(1, 5)}
    assert Counter(event.runs for event in steps_of(events, "inner")) == {(-run,): 500 for run in range(1, 5)}
    by_run = {event.runs[0]: event.thread for event in steps_of(events)}
    assert len(set(by_run.values())) == 4


def test_a_thread_is_followed_while_the_main_thread_is_silent_also_after_it_called_again() -> None:
    calls, second = UnmarkedCalls(Ring(100)), 100

    def follows(seconds: int) -> int:
        """How many of the calls are noted that another thread makes, one a second."""
        noted: list[int] = []

        def train() -> None:
            nonlocal second
            for _ in range(seconds):
                second += 1
                noted.append(calls.note(5, second * NANOSECONDS, second * NANOSECONDS + 1))

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
        return sum(map(bool, noted))

    def main_calls() -> None:
        nonlocal second
        second += 1
        assert calls.note(1, second * NANOSECONDS, second * NANOSECONDS + 1)

    main_calls()
    assert follows(30) == 21
    for _ in range(2):
        main_calls()  # an evaluation
        assert follows(50) == 0, "the main thread may make long steps"
        assert follows(50) == 41


def test_steps_that_overlap_leave_none_that_the_next_takes_for_its_own_surroundings(marks: Marks) -> None:
    """Two tasks of asyncio on one thread, each with a step of its own."""

    def overlap() -> None:
        first, second = marks.step("first"), marks.step("second")
        for call in (first.__enter__, second.__enter__):
            call()
            marks.work(1)
        for left in (first, second):
            left.__exit__(None, None, None)

    overlap()
    for _ in range(2):
        with marks.step():
            marks.work(5)
            assert marks.loops.current.step is not None
        marks.work(2)
    assert marks.loops.current.step is None
    assert [own(event) for event in steps_of(marks.events())] == [5, 7]


@pytest.mark.parametrize("second", ["step", "phase"])
def test_a_step_that_ended_within_what_overlaps_it_is_not_put_back(marks: Marks, second: str) -> None:
    first, later = marks.step("first"), getattr(marks, second)("second")
    for call in (first.__enter__, later.__enter__):
        call()
    for left in (first, later):
        left.__exit__(None, None, None)
    assert marks.loops.current.step is None


def test_what_is_marked_after_the_end_of_a_turn_was_read_belongs_to_the_next(marks: Marks) -> None:
    """A signal handler's marks may come before the turn is emitted, and be longer than it."""
    loops = marks.loops
    state, step = loops.state("train"), Step(loops.state("train"))
    for start, end, marked in ((100, 110, 30), (110, 150, 0)):
        step.claim(marked)
        loops.end_step(state, step, start, end, 0, 0, (None, None))
    assert [event.nested for event in steps_of(marks.events())] == [10, 20]


def test_a_trace_hides_a_step_that_was_marked_within_another_trace(marks: Marks) -> None:
    current = marks.loops.current
    with marks.step():
        marks.ran(1)
        current.hide_step()
        marks.ran(2)
        with marks.step("inner"):
            current.hide_step()
            marks.ran(3)  # it was counted in the inner step
            current.restore_step()
        current.restore_step()
        marks.ran(4)
    events = marks.events()
    assert [step.runs for loop in ("inner", "train") for step in steps_of(events, loop)] == [(), (1, 4)]
