"""A watched step whose only output is an array of 16 MiB that is not donated; the host waits each fifth step."""

import json
import time

import jax
import jax.numpy as jnp

import jaxobs

WIDTH, STEPS = 2048, 60
obs = jaxobs.instrument()
train_step = obs.watch(jax.jit(lambda weights: jnp.tanh(weights @ weights * 1e-4)))
weights = train_step(jax.random.normal(jax.random.key(0), (WIDTH, WIDTH))).block_until_ready()
began = time.perf_counter()
for number in obs.steps(range(STEPS)):
    weights = train_step(weights)
    if number % 5 == 4:
        weights.block_until_ready()
seconds = time.perf_counter() - began
time.sleep(2)  # the last steps are told about once a second
print(json.dumps({"truth": {"step_seconds": seconds / STEPS, "matrix_flops": 2.0 * WIDTH**3}}))
