"""Steps, loops and phases: what is counted, and that every nanosecond is charged exactly once."""

from __future__ import annotations

import enum
import gc
import math
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.flow.ring import Ring
from jaxobs.flow.wire import Frames, events_frame, events_of
from jaxobs.model.events import LoopDeclared, LoopEnded, PhaseEnded, PhaseStarted, StepEnded
from jaxobs.probe import loops as loops_module
from jaxobs.probe import marks as marks_module
from jaxobs.probe.loops import Loops, Steps
from jaxobs.probe.marks import PhaseMark, StepMark


class Marks:
    """The marks as `Observer` makes them, under a clock that the test moves."""

    def __init__(self) -> None:
        self.time = 1_000
        self.ring = Ring(100_000)
        self.phases_started: list[PhaseStarted] = []
        self.loops = Loops(self.ring)

    def work(self, duration: int) -> None:
        self.time += duration

    def steps(self, iterable: Any, loop: str = "train", **amounts: Any) -> Any:
        return Steps(self.loops, iterable, loop, **({"examples": None, "tokens": None} | amounts))

    def step(self, loop: str = "train", **amounts: Any) -> StepMark:
        return StepMark(self.loops, loop, **({"examples": None, "tokens": None} | amounts))

    def phase(self, name: str) -> PhaseMark:
        return PhaseMark(self.loops, name)

    def ran(self, run: int = 1) -> None:
        """What a watched function does."""
        step = self.loops.current.step
        if step is not None:
            step.ran(run, 0)

    def events(self) -> list[Any]:
        data, refused = events_frame(self.ring.drain())
        assert refused == 0
        told = [event for _, body in Frames().feed(data) for event in events_of(body)]
        self.phases_started += [event for event in told if isinstance(event, PhaseStarted)]
        return [event for event in told if not isinstance(event, PhaseStarted)]

    def slow_items(self, count: int, wait: int) -> Iterator[int]:
        for item in range(count):
            self.work(wait)
            yield item


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> Marks:
    made = Marks()
    monkeypatch.setattr(loops_module, "now", lambda: made.time)
    monkeypatch.setattr(marks_module, "now", lambda: made.time)
    return made


def steps_of(events: list[Any], loop: str = "train") -> list[StepEnded]:
    return [event for event in events if isinstance(event, StepEnded) and event.loop == loop]


def own(event: StepEnded) -> int:
    return event.gap + event.end - event.start - event.nested


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
    events = marks.events()
    charged = sum(own(event) for event in events)
    assert charged == marks.time - 1000 - 2 - 4  # but for before the second loop's first step, and the last


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


class Loop(enum.StrEnum):
    TRAIN = "train"


class Hostile:
    def __str__(self) -> str:
        raise ValueError

    def __float__(self) -> float:
        raise ValueError

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError


@pytest.mark.parametrize(
    ("given_amount", "told"),
    [
        (3, 3), (2.5, 2.5), (numpy.int64(8), 8.0), (numpy.float32(0.5), 0.5), (Hostile, math.nan),
        (numpy.ones(2), math.nan), (lambda: jax.numpy.ones(()), math.nan),
    ],
)  # fmt: skip
def test_amounts_of_any_type_are_told_as_plain_numbers(
    marks: Marks, given_amount: Any, told: float | None
) -> None:
    given_amount = given_amount() if callable(given_amount) else given_amount
    with marks.step(examples=given_amount):
        pass
    list(marks.steps([1], examples=given_amount))
    list(marks.steps([1], examples=lambda item: given_amount))
    seen = [event.examples for event in steps_of(marks.events())]
    assert seen == pytest.approx([told] * 3, rel=0, nan_ok=True)


@pytest.mark.parametrize("word", ["examples", "tokens", "flops"])
@pytest.mark.parametrize("wrong", ["many", "12", b"1", [1], object()])
def test_what_is_no_number_is_refused_where_it_is_given(marks: Marks, word: str, wrong: Any) -> None:
    message = f"{word}= takes a number, not an object of type '{type(wrong).__name__}'"
    with pytest.raises(TypeError, match=message):
        marks.steps([1], **{word: wrong})
    with pytest.raises(TypeError, match=message):
        marks.step(**{word: wrong})
    assert marks.events() == []


@pytest.mark.parametrize("word", ["examples", "tokens"])
def test_once_a_step_has_ended_what_is_no_number_ends_no_run(marks: Marks, word: str) -> None:
    list(marks.steps([1]))
    list(marks.steps([1], **{word: "many"}))
    with marks.step(**{word: [1]}, flops="many"):
        pass
    amounts = [getattr(event, word) for event in steps_of(marks.events())]
    assert amounts == pytest.approx([None, math.nan, math.nan], nan_ok=True)


def test_a_function_of_the_item_that_raises_is_told_as_no_number_and_the_loop_goes_on(marks: Marks) -> None:
    def count(item: int) -> int:
        if item == 1:
            raise KeyError(item)
        return item

    assert list(marks.steps([0, 1, 2], tokens=count)) == [0, 1, 2]
    first, second, third = steps_of(marks.events())
    assert (first.tokens, third.tokens) == (0, 2)
    assert math.isnan(second.tokens)


@pytest.mark.parametrize(("name", "told"), [(Loop.TRAIN, "train"), (7, "7"), (Hostile, "Hostile")])
def test_names_of_any_type_are_told_as_text(marks: Marks, name: Any, told: str) -> None:
    name = name() if name is Hostile else name
    with marks.phase(name), marks.step(name):
        pass
    list(marks.steps([1], loop=name))
    assert [event[0] for event in marks.events()] == [told] * 4


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


PROGRAMS = st.recursive(
    st.tuples(st.just("work"), st.integers(0, 50)),
    lambda inner: st.one_of(
        st.tuples(st.just("steps"), st.sampled_from("ab"), st.integers(0, 3), st.lists(inner, max_size=3)),
        st.tuples(st.just("step"), st.sampled_from("ab"), st.lists(inner, max_size=3)),
        st.tuples(st.just("phase"), st.sampled_from(["checkpoint", "other"]), st.lists(inner, max_size=3)),
    ),
    max_leaves=25,
)


def run(marks: Marks, program: Any) -> None:
    match program:
        case ("work", duration):
            marks.work(duration)
        case ("steps", loop, count, body):
            for _ in marks.steps(marks.slow_items(count, wait=3), loop=loop):
                for part in body:
                    run(marks, part)
        case ("step", loop, body):
            with marks.step(loop):
                for part in body:
                    run(marks, part)
        case ("phase", name, body):
            with marks.phase(name):
                for part in body:
                    run(marks, part)


@settings(max_examples=500, deadline=None)
@given(st.lists(PROGRAMS, max_size=6))
def test_every_nanosecond_inside_a_mark_is_charged_exactly_once(programs: list[Any]) -> None:
    """Loops take what is theirs, phases what is theirs (a checkpoint in a step: the step), however they are nested."""
    marks = Marks()
    before = loops_module.now
    loops_module.now = marks_module.now = lambda: marks.time  # type: ignore[assignment]
    try:
        outside = between = 0
        with marks.phase("everything"):
            for program in programs:
                run(marks, program)
                if program[0] == "work":
                    outside += program[1]
    finally:
        loops_module.now = marks_module.now = before
    charged = 0
    for event in marks.events():
        if isinstance(event, StepEnded):
            assert event.gap >= 0
            assert 0 <= event.nested <= event.end - event.start - event.checkpoint
            charged += own(event)
            between += event.gap
        elif isinstance(event, LoopEnded):
            charged += event.input_wait
        elif event.phase != "everything":
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


def test_the_users_own_flops_are_told_once_and_again_when_they_change(marks: Marks) -> None:
    for flops in (1e9, 1e9, 2e9):
        for _ in Steps(marks.loops, range(3), "train", None, None, flops):
            marks.work(1)
        with StepMark(marks.loops, "train", None, None, flops):
            marks.work(1)
    told = [event.model_flops for event in marks.events() if isinstance(event, LoopDeclared)]
    assert told == [1e9, 2e9]


def test_the_beginning_of_a_phase_is_told_as_well_as_its_end(marks: Marks) -> None:
    marks.work(7)
    with marks.phase("checkpoint"):
        marks.work(5)
    [ended] = marks.events()
    assert [(begun.phase, begun.inside, begun.time) for begun in marks.phases_started] == [
        ("checkpoint", None, ended.start)
    ]
