"""Steps of long products, with a small operation between two of them; nothing is watched, and nothing marked.

A profiler window that saw only the small one once took it for a run of the whole function.
"""

import json
import time
from typing import Any

import jax
import jax.numpy as jnp

WIDTH, PRODUCTS, SECONDS = 1400, 6, 16


@jax.jit
def train_step(x: Any) -> Any:
    """Products, each followed by a sort of eight rows."""
    for _ in range(PRODUCTS):
        x = jnp.sin(x.T @ x * 1e-6)
        smallest = jax.lax.sort(x[:8], dimension=1)[:1]
        x = x + 1e-9 * smallest.sum()
    return x, x.sum()


x, total = train_step(jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)))
total.block_until_ready()
began, steps = time.perf_counter(), 0
while time.perf_counter() - began < SECONDS:
    x, total = train_step(x)
    float(total)
    steps += 1
seconds = (time.perf_counter() - began) / steps
print(json.dumps({"truth": {"step_seconds": seconds, "matrix_flops": PRODUCTS * 2.0 * WIDTH**3}}))
