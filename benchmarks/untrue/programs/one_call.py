"""The whole training is one watched call: a `lax.scan` of 800 steps."""

import json
import time
from typing import Any

import jax
import jax.numpy as jnp

import jaxobs

WIDTH, LENGTH = 512, 800


def descend(weights: Any, inputs: Any) -> Any:
    """LENGTH steps of gradient descent."""

    def step(weights: Any, _: Any) -> Any:
        def loss(weights: Any) -> Any:
            return jnp.mean((jnp.tanh(inputs @ weights) - 0.5) ** 2)

        return weights - 0.1 * jax.grad(loss)(weights), None

    return jax.lax.scan(step, weights, None, length=LENGTH)[0]


obs = jaxobs.instrument()
train = obs.watch(jax.jit(descend))
inputs = jax.random.normal(jax.random.key(0), (WIDTH, WIDTH))
weights = inputs * 0.01
times = []
for _ in range(2):
    began = time.perf_counter()
    weights = train(weights, inputs).block_until_ready()
    times.append(time.perf_counter() - began)
time.sleep(2)  # runs are told about once a second
# Two products of WIDTH³ a step: forward, and the gradient of the weights.
truth = {"seconds": sum(times), "matrix_flops": LENGTH * 2 * 2.0 * WIDTH**3, "iterations": LENGTH}
print(json.dumps({"truth": truth}))
