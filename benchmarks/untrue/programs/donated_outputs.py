"""A watched step all of whose outputs are donated to the next: none of them is there to be asked when the device is done.

The host runs ahead as far as JAX lets it; with the argument `waits` it reads a value each tenth step.
"""

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

import jaxobs

WAITS = sys.argv[1:] == ["waits"]
WIDTH, PRODUCTS, SECONDS = 1024, 3, 6.0


def renewed(state: dict[str, Any]) -> dict[str, Any]:
    """A few products, and a counter beside them."""
    weights = state["weights"]
    for _ in range(PRODUCTS):
        weights = jnp.tanh(weights @ weights * 1e-3)
    return {"weights": weights, "steps": state["steps"] + 1}


obs = jaxobs.instrument()
train_step = obs.watch(jax.jit(renewed, donate_argnums=0))
state = {"weights": jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)), "steps": jnp.zeros((), int)}
state = jax.block_until_ready(train_step(state))
began, steps = time.perf_counter(), 0
for _ in obs.steps(iter(int, 1)):
    state = train_step(state)
    steps += 1
    if WAITS and steps % 10 == 0:
        state["steps"].block_until_ready()
    if time.perf_counter() - began > SECONDS:
        break
jax.block_until_ready(state)
seconds = time.perf_counter() - began
time.sleep(2)  # the last steps are told about once a second
print(json.dumps({"truth": {"step_seconds": seconds / steps, "matrix_flops": PRODUCTS * 2.0 * WIDTH**3}}))
