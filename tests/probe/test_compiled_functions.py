"""Whose function a compile is: the user's by its own name, and what JAX compiles by itself under one."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxobs.model.events import (
    Compilation,
    ExecutableCreated,
)
from tests.probe.compiled import compilations

EAGER = "(eager)"


def test_what_holds_a_function_of_jax_or_comes_in_one_of_its_types_is_the_users_own(observed: Any) -> None:
    class Layer:
        def __init__(self) -> None:
            self.f = jnp.tanh

        def __call__(self, x: Any) -> Any:
            return self.f(x)

    def scaled(by: float, x: Any) -> Any:
        return by * x

    for function in (Layer(), jax.tree_util.Partial(scaled, 2.0)):
        jitted = jax.jit(function)
        for size in (3, 4):
            jitted(np.ones(size, np.float32))
    compiled = observed.of(Compilation)
    assert [event.recompilation for event in compiled] == [None, "shape", None, "shape"]
    assert EAGER not in {event.function for event in compiled}
    assert all("trace" in {phase for phase, _, _ in event.phases} for event in compiled)


def test_transformations_of_one_function_are_programs_of_their_own(observed: Any) -> None:
    def loss(x: Any) -> Any:
        return (x * x).sum()

    for transformed in (loss, jax.grad(loss), jax.vmap(loss)):
        jax.jit(transformed)(np.ones((3, 3), np.float32))
    assert [event.recompilation for event in observed.of(Compilation)] == [None, None, None]


def test_functions_of_one_name_are_told_apart_by_where_their_source_is(observed: Any) -> None:
    class Generator:
        @staticmethod
        def update(x: Any) -> Any:
            return x + 1

    def closure(by: float) -> Any:
        def update(x: Any) -> Any:
            return x + by

        return update

    x = np.ones(3, np.float32)
    first = closure(2.0)
    for function in (Generator.update, first, closure(3.0), jax.value_and_grad(lambda x: first(x).sum())):
        jax.jit(function)(x)
    jax.jit(functools.partial(first))(x)
    jax.jit(jax.vmap(first))(x)
    definitions = [event.definition for event in observed.of(ExecutableCreated)]
    file = "test_compiled_functions.py:"
    assert all(definition.startswith(file) for definition in definitions)
    assert len({*definitions[:2]}) == 2
    assert definitions[2] == definitions[4] == definitions[1]
    assert definitions[3].endswith(" under value_and_grad")
    assert definitions[5] == f"{definitions[1]} under vmap"


def test_what_jax_compiles_by_itself_is_eager_and_no_recompile(observed: Any) -> None:
    for size in (11, 12):
        x = jnp.arange(float(size)) * 3
        jnp.linalg.norm(x)
        jax.grad(lambda x: (x**3).sum() + jnp.tanh(x).mean())(x)
        jax.vmap(lambda x: jnp.sort(x * 2))(x[None])
    assert set(compilations(observed)) == {EAGER}
    assert {event.recompilation for event in observed.of(Compilation)} == {None}
    assert observed.of(ExecutableCreated) == []


def test_the_users_functions_keep_their_names_whatever_wraps_them(observed: Any) -> None:
    x = jnp.ones((1, 4))

    @jax.jit
    def add(a: Any) -> Any:  # as a function of JAX's own is called
        return a + 11

    def gradient_of(a: Any) -> Any:
        return (a**2).sum()

    def partially(a: Any, b: int) -> Any:
        return a + b

    def checkpointed(a: Any) -> Any:
        return a * 3

    def mapped(a: Any) -> Any:
        return a * 5

    jnp.add(x, x)
    add(x)
    jnp.add(x[0], x[0])
    add(x[0])
    jax.jit(jax.grad(gradient_of))(x)
    jax.jit(functools.partial(partially, b=2))(x)
    jax.jit(jax.checkpoint(checkpointed))(x)
    jax.jit(jax.vmap(mapped))(x)
    jax.jit(lambda a: a - 7)(x)
    jax.grad(lambda a: add(a).sum())(jnp.ones((2, 2)))
    counted = compilations(observed)
    del counted[EAGER]
    own = {"gradient_of": 1, "partially": 1, "checkpointed": 1, "mapped": 1, "<lambda>": 1}
    assert counted.pop("add") >= 3
    assert counted == own
    causes = [event.recompilation for event in observed.of(Compilation) if event.function == "add"]
    assert causes[:2] == [None, "shape"]
