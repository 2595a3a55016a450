"""Each epoch is a `lax.scan` outside any jit, as tutorials of samplers write it."""

import json
import time
from typing import Any

import jax
import jax.numpy as jnp

WIDTH, LENGTH, EPOCHS = 512, 300, 8
inputs = jax.random.normal(jax.random.key(0), (WIDTH // 2, WIDTH))
weights = jnp.eye(WIDTH) * 0.01


def step(weights: Any, _: Any) -> Any:
    """One of gradient descent."""
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(inputs @ w) - 0.5) ** 2))(weights)
    return weights - 0.1 * gradient, loss


seconds = 0.0
for epoch in range(EPOCHS):
    began = time.perf_counter()
    weights, losses = jax.lax.scan(step, weights, None, length=LENGTH)
    losses.block_until_ready()
    seconds += time.perf_counter() - began if epoch else 0.0  # the first compiles
    print(epoch, float(losses[-1]))
print(json.dumps({"truth": {"call_seconds": seconds / (EPOCHS - 1), "iterations": LENGTH, "epochs": EPOCHS}}))
