"""Bytes that donation would give back: real programs, with and without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.cost import ModuleCost

State = dict[str, Any]
STATE: State = {"w": jnp.ones((64, 32)), "m": jnp.ones((64, 32)), "step": jnp.ones((), jnp.int32)}
BATCH = jnp.ones((16, 64))
STATE_BYTES = 2 * 64 * 32 * 4 + 4


def step(state: State, batch: jax.Array) -> tuple[State, jax.Array]:
    moved = 0.9 * state["m"] + batch.T @ (batch @ state["w"])
    return {"w": state["w"] - moved, "m": moved, "step": state["step"] + 1}, moved.sum()


CostOf = Callable[..., ModuleCost]


@pytest.mark.parametrize(("donated", "left"), [((), STATE_BYTES), ((0,), 0), ((1,), STATE_BYTES)])
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_a_training_state_that_is_not_donated(cost_of: CostOf, donated: tuple[int, ...], left: float) -> None:
    assert cost_of(step, STATE, BATCH, donate_argnums=donated).donatable_bytes == left


def test_arguments_that_no_output_is_like_cannot_be_taken_over(cost_of: CostOf) -> None:
    assert cost_of(lambda w, x: (x @ w).sum(), jnp.ones((64, 64)), BATCH).donatable_bytes == 0
    assert cost_of(lambda x: x.astype(jnp.bfloat16), jnp.ones((64, 64))).donatable_bytes == 0
    assert cost_of(lambda x: x.reshape(32, 128), jnp.ones((64, 64))).donatable_bytes == 0


def test_each_argument_is_taken_over_once(cost_of: CostOf) -> None:
    one = 64 * 64 * 4
    x = jnp.ones((64, 64))
    assert cost_of(lambda x: (x + 1, x + 2, x + 3), x).donatable_bytes == one
    assert cost_of(lambda x, y: x + y, x, x).donatable_bytes == one
    assert cost_of(lambda x, y: (x + y, x - y), x, x, donate_argnums=(0,)).donatable_bytes == one


def test_a_result_that_is_no_tuple(text_cost: Callable[[str], ModuleCost]) -> None:
    text = "ENTRY main {\n  x = f32[8,4] parameter(0)\n  ROOT y = f32[8,4] negate(x)\n}\n"
    assert text_cost(text).donatable_bytes == 8 * 4 * 4
