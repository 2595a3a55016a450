"""A small training whose every part can be made slower: run as a script, with its settings in the environment."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs

WIDTH = int(os.environ.get("TRAINING_WIDTH", "384"))
BATCH = int(os.environ.get("TRAINING_BATCH", "128"))
DTYPE = os.environ.get("TRAINING_DTYPE", "float32")
WAIT = float(os.environ.get("TRAINING_WAIT", "0"))
SHAPES = int(os.environ.get("TRAINING_SHAPES", "1"))
SECONDS = float(os.environ.get("TRAINING_SECONDS", "8"))
LAYERS = 3


@jax.jit
def train_step(weights: list[jax.Array], batch: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """One step of gradient descent."""

    def loss(weights: list[jax.Array]) -> jax.Array:
        hidden = batch
        for weight in weights:
            hidden = jnp.tanh(hidden @ weight)
        return (hidden.astype(jnp.float32) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda weight, gradient: weight - 0.01 * gradient, weights, gradients), value


def batches() -> Iterator[jax.Array]:
    """The same batch again and again; every hundredth has one of the other shapes, if there are some."""
    whole = np.random.default_rng(0).standard_normal((BATCH, WIDTH), dtype=np.float32)
    batch = jnp.asarray(whole, DTYPE)
    others = [jnp.asarray(whole[: BATCH - 1 - number], DTYPE) for number in range(SHAPES - 1)]
    begin, turn = time.perf_counter(), 0
    while time.perf_counter() - begin < SECONDS:
        if WAIT:
            time.sleep(WAIT)
        turn += 1
        yield others.pop() if others and turn % 100 == 0 else batch


def main() -> None:
    """Train for a while, observed."""
    weights = [jnp.full((WIDTH, WIDTH), 0.01, DTYPE) for _ in range(LAYERS)]
    with jaxobs.instrument() as obs:
        step = obs.watch(train_step)
        for batch in obs.steps(batches(), examples=BATCH):
            weights, value = step(weights, batch)
            value.block_until_ready()


if __name__ == "__main__":
    main()
