"""Calls that differ by an argument: its shape, type, structure, or static value."""

from __future__ import annotations

import collections
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.probe.recompiled import (
    Hostile,
    Layer,
    Model,
    Pair,
    Text,
    case,
    identity,
    row,
    step_of_a_tree,
    step_of_two,
    x,
)


@case
def shape() -> None:
    step = identity()
    step(x)
    step(jnp.ones((9, 16)))


@case
def last_partial_batch() -> None:
    @jax.jit
    def step(params: Any, batch: Any) -> Any:
        return (batch["image"] @ params["w"]).sum() + batch["label"].sum()

    params = {"w": jnp.ones((16, 4))}
    for size in (8, 8, 5):
        step(params, {"image": jnp.ones((size, 16)), "label": jnp.ones((size,))})


@case
def dtype() -> None:
    step = identity()
    step(x)
    step(x.astype(jnp.bfloat16))


@case
def weak_type_of_a_python_scalar() -> None:
    step = step_of_two()
    step(x, 1.0)
    step(x, jnp.float32(1.0))


@case
def python_int_and_float() -> None:
    step = step_of_two()
    step(x, 1)
    step(x, 1.0)


@case
def numpy_scalar_and_python_scalar() -> None:
    step = step_of_two()
    step(x, np.float32(1.0))
    step(x, 1.0)


@case
def key_added_to_a_dictionary() -> None:
    step = step_of_a_tree()
    step({"dense": {"w": row}}, x)
    step({"dense": {"w": row, "b": row}}, x)


@case
def longer_list() -> None:
    step = step_of_a_tree()
    step([row, row], x)
    step([row, row, row], x)


@case
def none_or_an_array() -> None:
    @jax.jit
    def masked(x: Any, mask: Any) -> Any:
        return x if mask is None else x * mask

    masked(x, None)
    masked(x, row)


@case
def tuple_or_named_tuple() -> None:
    step = step_of_a_tree()
    step((row, row), x)
    step(Pair(row, row), x)


@case
def dictionary_or_ordered_dictionary() -> None:
    step = step_of_a_tree()
    step({"w": row}, x)
    step(collections.OrderedDict(w=row), x)


@case
def auxiliary_data_of_a_users_node() -> None:
    step = step_of_a_tree()
    step({"layer": Layer(row, "relu")}, x)
    step({"layer": Layer(row, "tanh")}, x)


@case
def static_argument_by_number() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def repeat(x: Any, times: int) -> Any:
        return jnp.concatenate([x] * times)

    repeat(x, 2)
    repeat(x, 3)


@case
def static_argument_by_name() -> None:
    @functools.partial(jax.jit, static_argnames=("mode",))
    def step(x: Any, mode: str = "train") -> Any:
        return x * 2 if mode == "train" else x

    step(x, mode="train")
    step(x, mode="eval")


@case
def static_argument_that_is_not_a_number() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def step(x: Any, scale: float) -> Any:
        return x * scale

    step(x, float("nan"))
    step(x, float("nan"))


@case
def shape_of_a_pmapped_function() -> None:
    def step(x: Any) -> Any:
        return x * 2

    mapped = jax.pmap(step)
    mapped(x)
    mapped(np.ones((8, 17), np.float32))


@case
def static_argument_of_a_pmapped_function() -> None:
    @functools.partial(jax.pmap, static_broadcasted_argnums=1)
    def step(x: Any, times: int) -> Any:
        return x * times

    step(x, 2)
    step(x, 3)


@case
def pmapped_arrays_that_lie_on_the_devices_by_then() -> None:
    step = jax.pmap(lambda x: x * 2)
    step(step(x))


@case
def axes_of_pmap() -> None:
    def step(x: Any, y: Any) -> Any:
        return x * y.sum()

    jax.pmap(step)(x, x)
    jax.pmap(step, in_axes=(0, None))(x, x)


@case
def static_argument_of_a_users_type() -> None:
    @functools.partial(jax.jit, static_argnames=("config",))
    def step(x: Any, config: Any) -> Any:
        return x * config.number

    step(x, config=Hostile(1))
    step(x, config=Hostile(2))


@case
def equal_static_argument_of_a_users_type_and_another_shape() -> None:
    @functools.partial(jax.jit, static_argnums=0)
    def step(config: Any, x: Any) -> Any:
        return x * config.number

    step(Hostile(1), x)
    step(Hostile(1), jnp.ones((9, 16)))


@case
def static_text_of_a_users_type() -> None:
    @functools.partial(jax.jit, static_argnums=1)
    def step(x: Any, mode: str) -> Any:
        return x * len(mode)

    step(x, Text("a"))
    step(x, Text("bc"))


@case
def static_self_of_a_method() -> None:
    Model(2).apply(x)
    Model(3).apply(x)
