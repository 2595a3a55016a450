"""Examples, tokens, FLOPs and names as users give them: plain when told, or refused where they are given."""

from __future__ import annotations

import enum
import math
import os
import signal
import threading
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy
import pytest

from jaxobs.model.events import LoopDeclared
from jaxobs.probe import sources
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import Current
from jaxobs.probe.steps.marks import StepMark
from jaxobs.probe.steps.values import RecordedValues, given_timeout
from tests.probe.conftest import Observed
from tests.probe.marks_under_a_clock import Marks, steps_of


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
        (numpy.ones(2), math.nan), (lambda: jax.numpy.ones(()), math.nan), (10**400, math.nan), (-1e308, math.nan),
        (numpy.float64("inf"), math.nan), (2**60, 2**60),
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
    wrong: dict[str, Any] = {word: [1], "flops": "many"}
    with marks.step(**wrong):
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
    assert second.tokens is not None
    assert math.isnan(second.tokens)


@pytest.mark.parametrize(("name", "told"), [(Loop.TRAIN, "train"), (7, "7"), (Hostile, "Hostile")])
def test_names_of_any_type_are_told_as_text(marks: Marks, name: Any, told: str) -> None:
    name = name() if name is Hostile else name
    with marks.phase(name), marks.step(name):
        pass
    list(marks.steps([1], loop=name))
    assert [event[0] for event in marks.events()] == [told] * 6


def test_the_users_own_flops_are_told_once_and_again_when_they_change(marks: Marks) -> None:
    for flops in (1e9, 1e9, 2e9):
        for _ in Steps(marks.loops, range(3), "train", None, None, flops):
            marks.work(1)
        with StepMark(marks.loops, "train", None, None, flops):
            marks.work(1)
    told = [event.model_flops for event in marks.events() if isinstance(event, LoopDeclared)]
    assert told == [1e9, 2e9]


@pytest.mark.parametrize("wrong", [None, "5", 1j, [2.0]])
def test_a_timeout_that_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"snapshot\(timeout=…\) takes a number of seconds, not an object of type"
    ):
        given_timeout("snapshot", wrong)


@pytest.mark.parametrize("wrong", [-1, math.nan, math.inf, 1e300])
def test_a_timeout_that_nobody_can_wait_for_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"shutdown\(timeout=.*\): give seconds from 0 on"):
        given_timeout("shutdown", wrong)


def test_a_timeout_may_be_any_real_number() -> None:
    assert [given_timeout("snapshot", value) for value in (0, 2, 0.5, numpy.float32(1.5))] == [0, 2, 0.5, 1.5]


def test_a_recorded_array_that_is_changed_afterwards_has_the_number_that_it_had() -> None:
    lines: list[str] = []
    recorded = RecordedValues(Current(), lines.append)
    loss = numpy.full((), 2.0)
    for _ in range(2):  # the first time its type is not known yet
        recorded.record({"loss": loss, "accuracy": numpy.float32(0.5)})
        loss += 1
        told = {value.name: value.value for value in recorded.ready()}
        assert told == {"loss": float(loss.item()) - 1, "accuracy": 0.5}
    assert lines == []


@pytest.mark.parametrize("make", [jnp.ones, numpy.ones])
def test_a_recorded_array_of_several_numbers_is_refused_at_once_and_not_kept(make: Any) -> None:
    lines: list[str] = []
    recorded = RecordedValues(Current(), lines.append)
    for _ in range(2):  # the first time its type is not known yet
        logits = make((2, 3))
        reference = weakref.ref(logits)
        recorded.record({"logits": logits})
        del logits
        assert reference() is None
    assert lines == ["record(logits=…): not a single number: an array of shape (2, 3)"]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("locate_nan", [False, True])
def test_a_forked_child_keeps_nothing_that_was_recorded(locate_nan: bool) -> None:
    side = Observed(locate_nan=locate_nan).side
    total = side.watching.watch(jax.jit(jnp.sum))
    given = jnp.ones(3)
    loss = total(given)
    side.recorded.record({"loss": loss})
    references = weakref.ref(loss), weakref.ref(given)
    side.completions.let_go()
    del loss, given
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        kept = [True]
        try:
            side.forget_in_child()
            kept = [reference() is not None for reference in references]
        finally:
            os._exit(any(kept))
    assert os.waitpid(child, 0)[1] == 0
    assert references[0]() is not None
    side.stop(0.0)


def test_a_number_that_hangs_as_it_is_read_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_CALL_SECONDS", 0.2)
    hanging, over = threading.Event(), threading.Event()

    class Hanging:
        def __float__(self) -> float:
            hanging.set()
            over.wait(60)
            return 1.0

    side = Observed().side
    side.sources.begin_sampling()
    side.recorded.record({"loss": Hanging()})
    ended = threading.Thread(target=lambda: side.stop(0.0))
    ended.start()
    try:
        assert hanging.wait(60)
        ended.join(60)
        assert not ended.is_alive()
    finally:
        over.set()


class Secretive(type):
    """As a proxy's metaclass may be: no class of it has a hash or tells its module."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("private")


class Proxied(metaclass=Secretive):
    def __float__(self) -> float:
        return 1.5


class Table:
    """A container of a package whose name begins as NumPy's does; it has no size."""

    __module__ = "numpy_tables"

    def __setitem__(self, key: int, value: float) -> None:
        raise NotImplementedError

    def __float__(self) -> float:
        return 2.5


def of_no_module() -> Any:
    """An object of a class that was made where there is no `__name__`."""
    made: dict[str, Any] = {}
    exec("kind = type('Made', (), {'__float__': lambda self: 3.5})", made)
    return made["kind"]()


class Nameless:
    __module__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        return 4.5


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (Table(), 2.5),
        (of_no_module(), 3.5),
        (Nameless(), 4.5),
        (numpy.float32(0.5), 0.5),
        (Proxied(), None),
        (numpy.poly1d([1, 2]), None),
        (numpy.zeros(2).flat, None),
        (numpy.zeros(2), None),
    ],
    ids=lambda part: part if type(part) is float else type.__dict__["__name__"].__get__(type(part)),
)
def test_a_recorded_value_of_any_class_raises_nothing(value: Any, number: float | None) -> None:
    lines: list[str] = []
    recorded = RecordedValues(Current(), lines.append)
    for _ in range(2):  # the first time its type is not known yet
        recorded.record({"odd": value, "loss": 1.0})
        told = {each.name: each.value for each in recorded.ready()}
        assert told == {"loss": 1.0} | ({} if number is None else {"odd": number})
    assert [line.partition(":")[0] for line in lines] == ([] if number is not None else ["record(odd=…)"])
