"""Functions that `jax.pmap` compiles, which JAX tells of by names of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxobs.model.events import Compilation, ExecutableCreated, FunctionWatched
from tests.probe.compiled import compilations
from tests.probe.watched_runs import executables, runs, step

EAGER = "(eager)"


def ones(*shape: int) -> Any:
    return np.ones((1, *shape), np.float32)


def test_a_pmapped_function_has_its_name_its_phases_and_its_executable(observed: Any) -> None:
    def scaled(x: Any) -> Any:
        return jnp.tanh(x) * 2

    jax.pmap(scaled)(ones(3))
    (compiled,) = [event for event in observed.of(Compilation) if event.function != EAGER]
    assert (compiled.function, compiled.recompilation) == ("scaled", None)
    assert [phase for phase, _, _ in compiled.phases][-3:] == ["trace", "lower", "backend"]
    (made,) = observed.of(ExecutableCreated)
    assert (made.function, made.devices) == ("scaled", 1)
    assert made.proto


def test_one_compiled_ahead_of_time_has_its_name_as_well(observed: Any) -> None:
    def ahead(x: Any) -> Any:
        return x + 1

    jax.pmap(ahead).lower(ones(3)).compile()
    assert [made.function for made in observed.of(ExecutableCreated)] == ["ahead"]


def test_what_it_runs_on_the_way_and_what_jax_compiles_by_itself_is_not_its(observed: Any) -> None:
    def outer(x: Any) -> Any:
        return inner(x) + 1

    @jax.jit
    def inner(x: Any) -> Any:
        return x * 3

    jax.pmap(outer)(jnp.ones((1, 4)) * 2)
    assert set(compilations(observed)) == {"outer", EAGER}
    inner(ones(7))
    assert executables(observed, "inner")


def test_pmap_and_jit_of_one_function_are_programs_of_their_own(observed: Any) -> None:
    def both(x: Any) -> Any:
        return x * 5

    jax.jit(both)(ones(3))
    jax.pmap(both)(ones(3))
    jax.pmap(both)(ones(4))
    again = (
        "shape" if hasattr(jax, "smap") else "other"
    )  # up to JAX 0.7 it is not seen what pmap compiles for
    assert [event.recompilation for event in observed.of(Compilation)] == [None, None, again]


def test_gradients_taken_outside_of_pmap_are_never_called_eager(observed: Any) -> None:
    def loss(x: Any) -> Any:
        return jnp.sin(x).sum()

    def other(x: Any) -> Any:
        return jnp.cos(x).sum()

    for function in (loss, other):
        mapped = jax.pmap(function)
        jax.grad(lambda x, mapped=mapped: mapped(x).sum())(ones(3))
    assert {"loss", "other"} <= set(compilations(observed))
    assert "shape" not in {event.recompilation for event in observed.of(Compilation)}


def test_runs_of_a_watched_one_are_told_also_where_it_compiled_again_for_its_own_output(
    observed: Any,
) -> None:
    def update(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.lax.pmean(jnp.tanh(w) * x, "i")

    watched = observed.side.watching.watch(jax.pmap(update, axis_name="i"))
    w, x = jnp.ones((1, 8, 8)), jnp.ones((1, 8, 8))
    for _ in range(5):
        with step(observed):
            w = watched(w, x)
    made = executables(observed, "update")
    counted = runs(observed)
    assert sum(counted.values()) == 5
    assert set(counted) == set(made)
    assert counted[made[-1]] == 6 - len(made)
    told = [event.reason for event in observed.of(FunctionWatched) if event.function == "update"]
    assert told[1:] == []
