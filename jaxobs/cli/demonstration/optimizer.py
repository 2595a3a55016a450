"""AdamW (Loshchilov and Hutter 2019) with warm-up and gradient clipping, in plain JAX."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxobs.cli.demonstration.model import Parameters, Size, initial_parameters, loss

WARM_UP_STEPS = 20
WEIGHT_DECAY = 0.1
LARGEST_GRADIENT = 1.0
"""Norm over all parameters to which gradients are clipped: that of a batch of odd text would undo many steps."""
_FIRST_DECAY, _SECOND_DECAY = 0.9, 0.95


class TrainingState(NamedTuple):
    """The state that a step takes and returns."""

    parameters: Parameters
    first_moment: Parameters
    second_moment: Parameters
    step: jax.Array


@partial(jax.jit, static_argnums=1)
def initial_state(key: jax.Array, size: Size) -> TrainingState:
    """Random parameters, moments of zero, step 0."""
    parameters = initial_parameters(key, size)
    return TrainingState(parameters, _zeros(parameters), _zeros(parameters), jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=2, donate_argnums=0)
def train_step(state: TrainingState, tokens: jax.Array, size: Size) -> tuple[TrainingState, jax.Array]:
    """One step on int32[examples, length + 1]: the new state, and the loss before it, nats. The old state is donated."""
    value, gradient = jax.value_and_grad(loss)(state.parameters, tokens, size)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, LARGEST_GRADIENT / norm), gradient)
    step = state.step + 1
    first = _average(_FIRST_DECAY, state.first_moment, gradient)
    second = _average(_SECOND_DECAY, state.second_moment, jax.tree.map(jnp.square, gradient))
    rate = size.learning_rate * jnp.minimum(1.0, step / WARM_UP_STEPS)

    def moved(parameter: jax.Array, mean: jax.Array, square: jax.Array) -> jax.Array:
        direction = (mean / (1 - _FIRST_DECAY**step)) / (jnp.sqrt(square / (1 - _SECOND_DECAY**step)) + 1e-8)
        return parameter - rate * (direction + WEIGHT_DECAY * parameter)

    parameters = jax.tree.map(moved, state.parameters, first, second)
    return TrainingState(parameters, first, second, step), value


@partial(jax.jit, static_argnums=2)
def evaluation_step(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The loss in nats, without a gradient."""
    return loss(parameters, tokens, size)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def _average(decay: float, old: Any, new: Any) -> Any:
    return jax.tree.map(lambda before, now: decay * before + (1 - decay) * now, old, new)
