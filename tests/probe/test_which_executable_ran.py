"""Which of its executables a call of a watched function ran: told by its arguments, and never guessed."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.model.events import WITHOUT_JIT, FunctionWatched
from jaxobs.probe.watch import calls
from jaxobs.probe.watch.calls import EXECUTABLES_KEPT, MADE_BESIDE, Created, Executables
from tests.probe.watched_runs import executables, runs, step


def a_function(name: str, factor: float) -> Callable[[Any], Any]:
    """A function of that name that JAX has not compiled yet."""

    def scaled(x: Any) -> Any:
        return x * factor

    scaled.__name__ = scaled.__qualname__ = name
    return scaled


def test_runs_of_several_executables_are_told_apart_by_shapes_types_and_structure(observed: Any) -> None:
    def power(x: Any, *, scale: float = 1.0) -> Any:
        return (x**2).sum() * scale

    watched = observed.side.watching.watch(jax.jit(power))
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


def test_a_function_that_was_compiled_ahead_of_its_calls_runs_that_executable(observed: Any) -> None:
    watched = observed.side.watching.watch(jax.jit(a_function("halved", 0.5)))
    watched.lower(jnp.ones(3)).compile()
    for _ in range(4):
        watched(jnp.ones(3))
    assert runs(observed) == {executables(observed, "halved")[-1]: 4}


def test_which_of_two_of_one_name_was_compiled_ahead_is_not_guessed(observed: Any) -> None:
    first, second = (observed.side.watching.watch(jax.jit(a_function("halved", by))) for by in (0.5, 0.25))
    for watched in (first, second):
        watched.lower(jnp.ones(3)).compile()
    made = executables(observed, "halved")
    first(jnp.ones(3))
    assert len(executables(observed, "halved")) > len(made) or set(runs(observed)) == {
        first._jaxobs_calls.number
    }


def test_a_call_while_jit_is_switched_off_is_no_run(observed: Any) -> None:
    watched, x = observed.side.watching.watch(jax.jit(a_function("thirded", 1 / 3))), jnp.ones(3)
    for _ in range(2):
        watched(x)
    with jax.disable_jit():
        for _ in range(3):
            watched(x)
            with step(observed):
                watched(x)
    with step(observed):
        watched(x)
    (made,) = executables(observed, "thirded")
    assert runs(observed) == {made: 3, WITHOUT_JIT: 6}


class State(NamedTuple):
    params: dict[str, Any]
    count: int  # type: ignore[assignment]  # over the tuple's own method, as optax has it


def test_arguments_of_any_structure_are_told_apart(observed: Any) -> None:
    @jax.jit
    def update(state: State, batch: tuple[Any, ...]) -> State:
        return State({name: value + batch[0].sum() for name, value in state.params.items()}, state.count + 1)

    watched = observed.side.watching.watch(update)
    state = State({"w": jnp.ones((2, 3)), "b": jnp.ones(3)}, 0)
    for size in (8, 8, 4, 8, 4, 4):
        watched(state, (jnp.ones(size), None))
    first, second = executables(observed, "update")
    assert runs(observed) == {first: 3, second: 3}


def test_arguments_that_differ_in_their_partition_alone_are_told_apart(observed: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    x = jnp.ones((4, 4))
    placed = [
        jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))
        for spec in (("data",), ())
    ]
    also_whole = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None)))
    watched = observed.side.watching.watch(jax.jit(a_function("partitioned", 2.0)))
    for value in placed:
        watched(value)
    for _ in range(3):
        for value in (placed[0], also_whole):
            watched(value)
    made = executables(observed, "partitioned")
    # Over one device JAX 0.6 compiles one program for both.
    assert runs(observed) == dict.fromkeys(made, 8 // len(made))


def test_static_arguments_that_no_shape_tells_apart_are_not_guessed(observed: Any) -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def scaled(x: Any, factor: int) -> Any:
        return x * factor

    watched = observed.side.watching.watch(scaled)
    x, y = jnp.ones(3), jnp.ones(5)
    watched(x, 1)
    watched(x, 2)  # the same shapes again
    watched(y, 1)
    for _ in range(5):
        watched(x, 1)
        watched(y, 1)
    first, _, third = executables(observed, "scaled")
    counted = runs(observed)
    assert counted == {first: 1, third: 6, watched._jaxobs_calls.number: 6}
    reasons = [
        event.reason for event in observed.of(FunctionWatched) if event.number == watched._jaxobs_calls.number
    ]
    assert "several executables" in reasons[-1]


def test_calls_under_a_transformation_outside_jit_are_not_taken_for_those_of_the_function(
    observed: Any,
) -> None:
    """The gradient runs two executables, forward and backward, and neither is the one that a plain call runs."""

    @jax.jit
    def loss(x: Any) -> Any:
        return (x**2).sum()

    watched = observed.side.watching.watch(loss)
    x = jnp.ones(3)
    watched(x)
    (plain,) = executables(observed, "loss")
    with step(observed):
        watched(x)
    for _ in range(3):
        with step(observed):
            jax.grad(watched)(x)
    number = watched._jaxobs_calls.number
    assert runs(observed) == {plain: 2, number: 3}
    reasons = [event.reason for event in observed.of(FunctionWatched) if event.number == number]
    assert "under jax.grad or jax.vmap outside jit" in reasons[-1]


def test_a_function_that_was_compiled_before_it_was_watched(observed: Any) -> None:
    @jax.jit
    def early(x: Any) -> Any:
        return x + 1

    early(jnp.ones(3))
    watched = observed.side.watching.watch(early)
    for _ in range(4):
        watched(jnp.ones(3))
    (made,) = executables(observed, "early")
    assert runs(observed) == {made: 4}
    watched(jnp.ones(6))
    _, second = executables(observed, "early")
    watched(jnp.ones(3))
    assert runs(observed) == {made: 5, second: 1}


def test_a_function_compiled_before_takes_no_executable_that_another_of_its_name_compiled(
    observed: Any,
) -> None:
    teacher, student = (jax.jit(a_function("forward", by)) for by in (1.5, 2.5))
    x = jnp.ones(3)
    observed.side.stop(0.0)
    teacher(x)
    observed.side.start_probes()
    watched = [observed.side.watching.watch(function) for function in (student, teacher)]
    for _ in range(3):
        for function in watched:
            function(x)
    (made,) = executables(observed, "forward")
    assert runs(observed) == {made: 3, watched[1]._jaxobs_calls.number: 3}


def test_a_function_that_is_jitted_twice_runs_one_executable(observed: Any) -> None:
    plain, held = a_function("plainly", 4.5), []
    for _ in range(2):
        held.append(observed.side.watching.watch(jax.jit(plain)))
        held[-1](jnp.ones(3))
        held[-1](jnp.ones(3))
    (made,) = executables(observed, "plainly")
    assert runs(observed) == {made: 4}


def reasons(observed: Any, watched: Any) -> list[str]:
    number = watched._jaxobs_calls.number
    return [event.reason for event in observed.of(FunctionWatched) if event.number == number]


@pytest.mark.parametrize(
    "make",
    [lambda jitted, x: jitted.lower(x).compile(), lambda jitted, x: jax.jit(jitted.__wrapped__)(x)],
    ids=["ahead of its calls", "by another jax.jit"],
)
def test_a_call_that_runs_what_none_of_its_own_compiled_is_not_taken_for_another(
    observed: Any, make: Callable[[Any, Any], object]
) -> None:
    watched = observed.side.watching.watch(jitted := jax.jit(a_function("beside", 3.5)))
    watched(jnp.ones(3))
    make(jitted, jnp.ones(4))
    watched(jnp.ones(4))
    first, second = executables(observed, "beside")
    counted = runs(observed)
    assert (counted[first], counted[second]) == (1, 0)
    assert reasons(observed, watched)[-1] == MADE_BESIDE


def test_other_types_of_arguments_that_run_the_same_executable_are_runs_of_it(observed: Any) -> None:
    """JAX's cache has an entry for each, though it compiles nothing: a state's count is a number at first."""

    def counting(x: Any, count: Any) -> Any:
        return x * 2, count + 1

    watched = observed.side.watching.watch(jax.jit(counting))
    _, count = watched(np.ones(3, np.float32), 0)
    watched(jnp.ones(3), count)
    assert watched._cache_size() > 1
    (made,) = executables(observed, "counting")
    assert runs(observed) == {made: 2}


def test_a_function_that_is_compiled_again_and_again_is_given_up_and_nothing_of_it_is_kept(
    observed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MAX_SIGNATURES", 4)
    watched = observed.side.watching.watch(jax.jit(a_function("endless", 5.5)))
    for size in (*range(1, 6), *range(1, 6)):
        watched(jnp.ones(size))
    assert not watched._jaxobs_calls._known
    made = dict.fromkeys(executables(observed, "endless")[:4], 1)
    assert runs(observed) == made | {watched._jaxobs_calls.number: 1 + 5}
    assert reasons(observed, watched)[-1] == calls.TOO_MANY


def test_what_is_noted_of_executables_is_bounded_however_many_are_compiled() -> None:
    made = Executables()
    for number in range(EXECUTABLES_KEPT + 1):
        before = made.count
        made.created("step" if number else "forgotten", made.number())
    assert len(made._created) == EXECUTABLES_KEPT
    assert [each.executable for each in made.since(before)] == [EXECUTABLES_KEPT + 1]
    assert made.of("forgotten", len) == [0]
    assert 0 in made.of("step", len)


def test_with_executables_from_before_none_is_guessed(observed: Any) -> None:
    @jax.jit
    def known_before(x: Any) -> Any:
        return x + 2

    known_before(jnp.ones(3))
    known_before(jnp.ones(4))
    watched = observed.side.watching.watch(known_before)
    watched(jnp.ones(5))  # compiles, but the other two are also there
    watched(jnp.ones(3))
    assert runs(observed) == {watched._jaxobs_calls.number: 2}

    @jax.jit
    def once_before(x: Any) -> Any:
        return x + 3

    once_before(jnp.ones(3))
    watched = observed.side.watching.watch(once_before)
    watched(jnp.ones(5))
    watched(jnp.ones(3))
    assert runs(observed)[watched._jaxobs_calls.number] == 2


def test_after_clear_cache_the_new_executable_is_told(observed: Any) -> None:
    @jax.jit
    def cleared(x: Any) -> Any:
        return x + 4

    watched = observed.side.watching.watch(cleared)
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
    watched = observed.side.watching.watch(jax.jit(lambda x: x + 5))

    @jax.jit
    def outer(x: Any) -> Any:
        return watched(x) + watched(x)

    outer_watched = observed.side.watching.watch(outer)
    with step(observed):  # the first, of which an output is wanted: a tracer is no output to ask
        outer_watched(1.0)
        outer_watched(1.0)
    jax.make_jaxpr(watched)(1.0)
    jax.eval_shape(watched, 1.0)
    (made,) = executables(observed, "outer")
    assert runs(observed) == {made: 2}
    assert watched._jaxobs_calls.leaf._ways is None
    with pytest.raises(ZeroDivisionError):
        jax.jit(lambda x: watched(x) / (1 // 0))(1.0)
    with step(observed):
        outer_watched(1.0)
    assert runs(observed) == {made: 3}


def test_a_finalizer_that_compiles_may_run_while_an_executable_is_noted() -> None:
    made = Executables()

    class Noted(deque):  # in the place where memory is allocated, and so garbage collected
        def append(self, created: Created) -> None:
            if created.function == "outer":
                made.created("finalizer", made.number())
            super().append(created)

    made._created = Noted()
    made.created("outer", made.number())
    assert [created.function for created in made.since(0)] == ["finalizer", "outer"]
    assert made.count == 2
