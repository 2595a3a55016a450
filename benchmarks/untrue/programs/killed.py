"""Trains until SIGTERM ends it, as Slurm and Kubernetes do: it tells its truth as it goes."""

import json
import time
from typing import Any

import jax
import jax.numpy as jnp


@jax.jit
def train_step(x: Any) -> Any:
    """One product."""
    return jnp.tanh(x @ x)


x = jnp.eye(512) * 0.9
x = train_step(x).block_until_ready()
began, steps = time.perf_counter(), 0
while True:
    x = train_step(x).block_until_ready()
    steps += 1
    if steps % 50 == 0:
        seconds = time.perf_counter() - began
        print(json.dumps({"truth": {"steps": steps, "step_seconds": seconds / steps}}), flush=True)
