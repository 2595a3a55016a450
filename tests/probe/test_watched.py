"""A watched function is the user's function in every way, and what ran is counted for the executable that ran."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import threading
import time
import traceback
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import FunctionWatched, StepCompleted, StepEnded
from jaxobs.plugin.wrapping import standing_in
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.watch.calls import NOT_SEEN, OF_JAX
from jaxobs.probe.watch.watchable import is_jitted
from tests.probe.watched_runs import executables, runs, step


@jax.jit
def doubled(x: Any) -> Any:
    """Twice its argument."""
    return x * 2


class JittedWithState:
    """As `flax.nnx.jit` makes them: it writes into objects what the jitted function gives, and returns nothing."""

    __module__ = "flax.stand_in"

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.jitted_fn = jax.jit(function)

    def __call__(self, state: dict[str, Any]) -> None:
        state["value"] = self.jitted_fn(state["value"])


def test_a_step_of_flax_nnx_that_returns_nothing_is_timed_by_what_it_updates(polled: Any) -> None:
    def training(value: Any) -> Any:
        weights, count = value
        return jnp.sin(weights @ weights), count + 1

    stateful, state = JittedWithState(training), {"value": (jnp.ones((400, 400)), jnp.ones(()))}
    for _ in range(2):
        assert polled.side.watching.watch(stateful) is stateful
    deadline, steps = time.monotonic() + 30, 0
    while not polled.of(StepCompleted) and time.monotonic() < deadline:
        with step(polled):
            stateful(state)
        steps += 1
    assert polled.of(StepCompleted)
    [executable] = executables(polled, "training")
    assert runs(polled) == {executable: steps}


def test_a_wrapper_of_a_jitted_function_is_one_whose_runs_are_seen(observed: Any) -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return x * 3

    @functools.wraps(inner)
    def wrapper(x: Any) -> Any:
        return inner(x)

    watched = observed.side.watching.watch(wrapper)
    for _ in range(4):
        watched(1.0)
    told = [event.reason for event in observed.of(FunctionWatched) if event.function == "inner"]
    assert told == [NOT_SEEN]
    assert runs(observed) == {executables(observed, "inner")[0]: 4}


@pytest.mark.parametrize("own", [jnp.matmul, jnp.dot, jax.vmap(jnp.dot)])
def test_why_the_runs_of_a_function_of_jax_that_a_script_jits_are_not_seen(observed: Any, own: Any) -> None:
    watched = observed.side.watching.watch(jax.jit(own))
    watched(jnp.ones((2, 2)), jnp.ones((2, 2)))
    number = watched._jaxobs_calls.number
    assert [event.reason for event in observed.of(FunctionWatched) if event.number == number][-1] == OF_JAX
    assert not executables(observed, watched.__name__)


def test_what_is_no_jitted_function_is_told_from_one(observed: Any) -> None:
    @functools.wraps(len)
    def plain(x: Any) -> Any:
        return x

    class Answers:
        def __getattr__(self, name: str) -> Any:
            if name in {"lower", "runtime_executable"}:
                raise AttributeError(name)
            return self

    assert [is_jitted(function) for function in (plain, Answers(), len)] == [False, True, False]
    assert all(map(is_jitted, (doubled, doubled.lower(1.0).compile(), observed.side.watching.watch(doubled))))


def test_an_error_whose_attributes_cannot_be_set_reaches_the_caller(observed: Any) -> None:
    @dataclasses.dataclass(frozen=True)
    class StopEarlyError(Exception):
        why: str

    class ClosedError(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise LookupError(name)

    def step(error: Exception) -> None:
        raise error

    for function in (observed.side.watching.watch(step), standing_in(step)(step)):
        for error in (StopEarlyError("it is good enough"), ClosedError()):
            caught: list[BaseException] = []
            try:
                function(error)
            except Exception as reached:  # noqa: BLE001  # whatever it is
                caught.append(reached)
            assert caught[0] is error


def test_keywords_of_any_name_and_methods_work(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnames=("self", "args"))
    def named(x: Any, self: int = 1, args: int = 1) -> Any:
        return x + self + args

    assert observed.side.watching.watch(named)(1.0, self=5, args=2) == 8.0

    class Model:
        factor = 3

        def apply(self, x: Any) -> Any:
            return x * self.factor

    Model.apply = observed.side.watching.watch(jax.jit(Model.apply, static_argnums=0))  # type: ignore[method-assign]  # as users do
    assert Model().apply(2.0) == 6.0
    assert Model.apply(Model(), 2.0) == 6.0


def test_what_does_not_bind_as_an_attribute_of_a_class_does_not_when_watched(observed: Any) -> None:
    class Model:
        predict = observed.side.watching.watch(doubled.lower(1.0).compile())
        length = observed.side.watching.watch(len)

    model = Model()
    assert (model.predict(2.0), model.length("ab")) == (4.0, 2)
    assert model.predict is Model.predict


def test_attributes_of_a_jitted_object_are_read_from_it_and_not_from_a_copy(observed: Any) -> None:
    class Counting:
        def __init__(self) -> None:
            self.lower, self.count = doubled.lower, 0

        def __call__(self, x: Any) -> Any:
            self.count += 1
            return doubled(x)

    watched = observed.side.watching.watch(Counting())
    for count in (1, 2):
        watched(1.0)
        assert watched.count == count


def test_results_are_the_very_same_objects(observed: Any) -> None:
    result = object()
    assert observed.side.watching.watch(lambda: result)() is result


def test_an_exception_is_the_same_with_the_same_frames_and_the_step_has_failed(observed: Any) -> None:
    error = KeyError("of the user")

    def raises() -> None:
        raise error

    def frames(function: Any) -> list[str]:
        with pytest.raises(KeyError) as caught:
            function()
        assert caught.value is error
        names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        error.__traceback__ = None
        return names

    plain = frames(raises)
    watched = observed.side.watching.watch(raises)
    with step(observed):
        seen = frames(watched)
    assert seen == plain
    assert error.__context__ is None
    assert error.__cause__ is None
    with step(observed):
        pass
    assert [event.failed for event in observed.of(StepEnded)] == [True, False]


class Hostile:
    """A value of the user's own type, as a static argument: nothing of it but its hash and equality for JAX's cache."""

    touched: list[str]

    def __init__(self) -> None:
        self.touched = []

    def __repr__(self) -> str:
        self.touched.append("repr")
        raise ValueError("repr")

    def __eq__(self, other: object) -> bool:
        if other is not self:
            self.touched.append("eq")
            raise ValueError("eq")
        return True

    __hash__ = object.__hash__


def test_values_of_the_users_types_are_neither_printed_nor_compared(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def static(x: Any, how: Hostile) -> Any:
        return x * 2

    watched = observed.side.watching.watch(static)
    how = Hostile()
    for size in (3, 4, 3):
        watched(jnp.ones(size), how)
    assert how.touched == []
    assert len(executables(observed, "static")) == 2
    assert all(run > 0 for run in runs(observed))


@jax.tree_util.register_pytree_node_class
class Broken:
    """A pytree whose flattening fails once JAX is done with it."""

    fails = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[Any], None]:
        if self.fails:
            raise RuntimeError("flattened by somebody else")
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Broken:
        made = cls(children[0])
        made.fails = True
        return made

    @property
    def shape(self) -> Any:
        raise RuntimeError("asked for its shape")


def test_outputs_of_any_kind_pass_through(observed: Any) -> None:
    gone = jnp.ones(3) + 1
    gone.delete()
    outputs: list[Any] = [None, 5, "text", (), {}, [Broken(1)], gone, {"a": [gone]}]
    broken = Broken(1.0)
    broken.fails = True
    for output in [*outputs, broken]:
        watched = observed.side.watching.watch(lambda output=output: output)
        for _ in range(3):
            with step(observed):
                assert watched() is output
    assert not observed.of(StepCompleted)


def test_where_no_call_can_be_asked_not_each_is_looked_at(observed: Any) -> None:
    watched = observed.side.watching.watch(lambda: None)
    for _ in range(2):
        with step(observed):
            watched()
    assert not observed.side.loops.state("train").asks(2, 0)


def test_calls_of_several_threads_at_once_are_all_counted(observed: Any) -> None:
    watched = observed.side.watching.watch(lambda: None)
    with step(observed):
        pass  # calls outside of steps are counted alone from now on
    calls = 50_000

    def many() -> None:
        for _ in range(calls):
            watched()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=many) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert runs(observed) == {watched._jaxobs_calls.number: 4 * calls}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_step_keeps_nothing_of_what_it_runs(observed: Any) -> None:
    side = observed.side
    watched = side.watching.watch(lambda: None)
    with step(observed):
        watched()
        under_way = side.loops.current.step
        child = os.fork()
        if child == 0:
            status = 1
            try:
                side.forget_in_child()
                for _ in range(100):
                    watched()
                list(Steps(side.loops, (), "train", None, None))
                status = len(side.ring) + len(under_way.later_runs)
            finally:
                os._exit(min(status, 100))
        watched()
        assert under_way.later_runs == [under_way.run]
    assert os.waitpid(child, 0)[1] == 0
