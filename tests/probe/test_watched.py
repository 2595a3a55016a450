"""A watched function is the user's function in every way, and what ran is counted for the executable that ran."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import pickle
import traceback
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import ExecutableCreated, FunctionCalled, FunctionWatched, StepEnded
from jaxobs.probe.calls import NOT_SEEN, is_jitted
from jaxobs.probe.marks import StepMark


@jax.jit
def doubled(x: Any) -> Any:
    """Twice its argument."""
    return x * 2


def step(observed: Any, loop: str = "train") -> StepMark:
    return StepMark(observed.side.loops, loop, None, None)


def executables(observed: Any, function: str) -> list[int]:
    return [made.executable for made in observed.of(ExecutableCreated) if made.function == function]


def runs(observed: Any) -> Counter[int]:
    """By executable; negative where it is not known which."""
    counted: Counter[int] = Counter()
    for event in observed.of(StepEnded, FunctionCalled):
        if isinstance(event, StepEnded):
            counted.update(event.runs)
        else:
            counted[event.run] += event.calls
    return counted


def test_it_looks_like_the_function_it_wraps(observed: Any) -> None:
    watched = observed.side.watch(doubled)
    assert (watched.__name__, watched.__doc__) == ("doubled", "Twice its argument.")
    assert watched.__module__ == doubled.__module__
    assert inspect.signature(watched) == inspect.signature(doubled)
    assert inspect.unwrap(watched) is inspect.unwrap(doubled)
    assert watched.__wrapped__ is doubled
    assert watched.lower(1.0).compile()(1.0) == 2.0
    assert watched.trace(1.0).jaxpr.in_avals == doubled.trace(1.0).jaxpr.in_avals
    assert watched.eval_shape(1.0).shape == ()
    with pytest.raises(AttributeError, match="no_such"):
        _ = watched.no_such
    assert observed.side.watch(watched) is watched
    assert hash(watched) == hash(watched)
    assert "doubled" in repr(watched)


def test_a_wrapper_of_a_jitted_function_is_one_whose_runs_are_seen(observed: Any) -> None:
    @jax.jit
    def inner(x: Any) -> Any:
        return x * 3

    @functools.wraps(inner)
    def wrapper(x: Any) -> Any:
        return inner(x)

    watched = observed.side.watch(wrapper)
    for _ in range(4):
        watched(1.0)
    assert [event.reason for event in observed.of(FunctionWatched)] == [NOT_SEEN]
    assert runs(observed) == {executables(observed, "inner")[0]: 4}


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
    assert all(map(is_jitted, (doubled, doubled.lower(1.0).compile(), observed.side.watch(doubled))))


def test_copies_are_the_function_itself_and_a_pickle_is_the_function_unwatched(observed: Any) -> None:
    watched = observed.side.watch(doubled)
    assert copy.copy(watched) is watched
    assert copy.deepcopy({"step": watched})["step"] is watched
    assert pickle.loads(pickle.dumps(observed.side.watch(len))) is len


def test_keywords_of_any_name_and_methods_work(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnames=("self", "args"))
    def named(x: Any, self: int = 1, args: int = 1) -> Any:
        return x + self + args

    assert observed.side.watch(named)(1.0, self=5, args=2) == 8.0

    class Model:
        factor = 3

        def apply(self, x: Any) -> Any:
            return x * self.factor

    Model.apply = observed.side.watch(jax.jit(Model.apply, static_argnums=0))  # type: ignore[method-assign]
    assert Model().apply(2.0) == 6.0
    assert Model.apply(Model(), 2.0) == 6.0


def test_results_are_the_very_same_objects(observed: Any) -> None:
    result = object()
    assert observed.side.watch(lambda: result)() is result


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
    watched = observed.side.watch(raises)
    with step(observed):
        seen = frames(watched)
    assert [name for name in seen if name != "__call__"] == plain
    assert error.__context__ is None
    assert error.__cause__ is None
    with step(observed):
        pass
    assert [event.failed for event in observed.of(StepEnded)] == [True, False]


def test_runs_of_several_executables_are_told_apart_by_shapes_types_and_structure(observed: Any) -> None:
    def power(x: Any, *, scale: float = 1.0) -> Any:
        return (x**2).sum() * scale

    watched = observed.side.watch(jax.jit(power))
    inputs = [jnp.ones(3), jnp.ones(4), jnp.ones((2, 2)), jnp.ones(3, jnp.int32)]
    expected = []
    for position, value in enumerate(inputs):
        watched(value)
        made = executables(observed, "power")
        assert len(made) == position + 1
        expected.append(made[-1])
    for position, value in enumerate(inputs):
        for _ in range(position + 1):
            with step(observed):
                watched(value)
    counted = runs(observed)
    # The first four calls are known as well: each compiled what it ran.
    assert {number: counted[number] for number in expected} == {
        number: position + 2 for position, number in enumerate(expected)
    }
    assert all(run > 0 for run in counted)


class State(NamedTuple):
    params: dict[str, Any]
    count: int


def test_arguments_of_any_structure_are_told_apart(observed: Any) -> None:
    @jax.jit
    def update(state: State, batch: tuple[Any, ...]) -> State:
        return State({name: value + batch[0].sum() for name, value in state.params.items()}, state.count + 1)

    watched = observed.side.watch(update)
    state = State({"w": jnp.ones((2, 3)), "b": jnp.ones(3)}, 0)
    for size in (8, 8, 4, 8, 4, 4):
        watched(state, (jnp.ones(size), None))
    first, second = executables(observed, "update")
    assert runs(observed) == {first: 3, second: 3}


def test_static_arguments_that_no_shape_tells_apart_are_not_guessed(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def scaled(x: Any, factor: int) -> Any:
        return x * factor

    watched = observed.side.watch(scaled)
    x, y = jnp.ones(3), jnp.ones(5)
    watched(x, 1)
    watched(x, 2)  # the same shapes again
    watched(y, 1)
    for _ in range(5):
        watched(x, 1)
        watched(y, 1)
    first, _, third = executables(observed, "scaled")
    counted = runs(observed)
    assert counted == {first: 1, third: 6, watched._calls.number: 6}
    reasons = [
        event.reason for event in observed.of(FunctionWatched) if event.number == watched._calls.number
    ]
    assert "several executables" in reasons[-1]


def test_a_function_that_was_compiled_before_it_was_watched(observed: Any) -> None:
    @jax.jit
    def early(x: Any) -> Any:
        return x + 1

    early(jnp.ones(3))
    watched = observed.side.watch(early)
    for _ in range(4):
        watched(jnp.ones(3))
    (made,) = executables(observed, "early")
    assert runs(observed) == {made: 4}
    watched(jnp.ones(6))
    _, second = executables(observed, "early")
    watched(jnp.ones(3))
    assert runs(observed) == {made: 5, second: 1}


def test_with_executables_from_before_none_is_guessed(observed: Any) -> None:
    @jax.jit
    def known_before(x: Any) -> Any:
        return x + 2

    known_before(jnp.ones(3))
    known_before(jnp.ones(4))
    watched = observed.side.watch(known_before)
    watched(jnp.ones(5))  # compiles, but the other two are also there
    watched(jnp.ones(3))
    assert runs(observed) == {watched._calls.number: 2}

    @jax.jit
    def once_before(x: Any) -> Any:
        return x + 3

    once_before(jnp.ones(3))
    watched = observed.side.watch(once_before)
    watched(jnp.ones(5))
    watched(jnp.ones(3))
    assert runs(observed)[watched._calls.number] == 2


def test_after_clear_cache_the_new_executable_is_told(observed: Any) -> None:
    @jax.jit
    def cleared(x: Any) -> Any:
        return x + 4

    watched = observed.side.watch(cleared)
    watched(jnp.ones(3))
    watched.clear_cache()
    watched(jnp.ones(3))
    first, second = executables(observed, "cleared")
    assert runs(observed) == {first: 1, second: 1}
    jax.clear_caches()
    watched(jnp.ones(3))
    third = executables(observed, "cleared")[-1]
    assert runs(observed) == {first: 1, second: 1, third: 1}


def test_inside_another_functions_trace_nothing_runs(observed: Any) -> None:
    watched = observed.side.watch(jax.jit(lambda x: x + 5))

    @jax.jit
    def outer(x: Any) -> Any:
        return watched(x) + watched(x)

    outer_watched = observed.side.watch(outer)
    observed.side.completions.armed = True  # a sample is wanted: a tracer is no output to ask
    with step(observed):
        outer_watched(1.0)
        outer_watched(1.0)
    jax.make_jaxpr(watched)(1.0)
    jax.eval_shape(watched, 1.0)
    (made,) = executables(observed, "outer")
    assert runs(observed) == {made: 2}
    assert watched._calls.leaf._ways is None
    with pytest.raises(ZeroDivisionError):
        jax.jit(lambda x: watched(x) / (1 // 0))(1.0)
    with step(observed):
        outer_watched(1.0)
    assert runs(observed) == {made: 3}


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

    watched = observed.side.watch(static)
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
    completions = observed.side.completions
    gone = jnp.ones(3) + 1
    gone.delete()
    outputs: list[Any] = [None, 5, "text", (), {}, [Broken(1)], gone, {"a": [gone]}]
    broken = Broken(1.0)
    broken.fails = True
    for output in [*outputs, broken]:
        watched = observed.side.watch(lambda output=output: output)
        for _ in range(3):
            completions.armed = True
            assert watched() is output
            assert completions.armed, output  # nothing could be asked: the next call is looked at


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_step_keeps_nothing_of_what_it_runs(observed: Any) -> None:
    side = observed.side
    watched = side.watch(lambda: None)
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
                side.loops.leave(side.loops.state("train"), 0)
                status = len(side.ring) + len(under_way.later_runs)
            finally:
                os._exit(min(status, 100))
        watched()
        assert under_way.later_runs == [-1]
    assert os.waitpid(child, 0)[1] == 0
