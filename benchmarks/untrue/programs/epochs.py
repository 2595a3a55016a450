"""Epochs that are dispatched in a moment: the host leaves its loop, and waits for the device outside it.

Arguments: the width of the products, the steps of an epoch, and the epochs after the first, which compiles.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp

import jaxobs

WIDTH, STEPS, EPOCHS = map(int, sys.argv[1:])
PRODUCTS = 8

obs = jaxobs.instrument()


@obs.watch
@jax.jit
def train_step(weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A few products, and a loss."""
    for _ in range(PRODUCTS):
        weights = jnp.tanh(weights @ weights * 1e-2)
    return weights, weights.sum()


def epoch(weights: jax.Array) -> jax.Array:
    """All of its losses are read at its end."""
    losses = []
    for _ in obs.steps(range(STEPS)):
        weights, loss = train_step(weights)
        losses.append(loss)
    jax.device_get(losses)
    return weights


weights = epoch(jnp.ones((WIDTH, WIDTH)))
began = time.perf_counter()
for _ in range(EPOCHS):
    weights = epoch(weights)
seconds = time.perf_counter() - began
flops = STEPS * EPOCHS * PRODUCTS * 2.0 * WIDTH**3
print(
    json.dumps({"truth": {"steps_per_second": STEPS * EPOCHS / seconds, "flops_per_second": flops / seconds}})
)
