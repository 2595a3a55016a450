"""`lax.cond` with branches that differ by ten times: each fourth step takes the long one. Nothing is watched or marked.

With the argument `marked` the function is watched, and the loop marked.
"""

import json
import sys
import time
from typing import Any

import jax

WIDTH, LONG, SHORT, EVERY, SECONDS = 512, 60, 6, 4, 16.0


def products(x: Any, count: int) -> Any:
    """So many products."""
    return jax.lax.fori_loop(0, count, lambda _, y: y @ x * 1e-3, x)


@jax.jit
def train_step(x: Any, number: Any) -> Any:
    """Each fourth is ten times as long."""
    made = jax.lax.cond(number % EVERY == 0, lambda x: products(x, LONG), lambda x: products(x, SHORT), x)
    return made * 1e-9 + x, made[0, 0]


step: Any = train_step
steps: Any = iter
if "marked" in sys.argv[1:]:
    import jaxobs

    obs = jaxobs.instrument()
    step, steps = obs.watch(train_step), obs.steps
x, loss = step(jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)), 0)
loss.block_until_ready()
began = time.perf_counter()
count = 0
for _ in steps(iter(lambda: time.perf_counter() - began < SECONDS, False)):
    x, loss = step(x, count)
    loss.block_until_ready()
    count += 1
seconds = (time.perf_counter() - began) / count
if "marked" in sys.argv[1:]:
    time.sleep(2)
mean = (LONG + (EVERY - 1) * SHORT) / EVERY
print(
    json.dumps({"truth": {"step_seconds": seconds, "matrix_flops": mean * 2.0 * WIDTH**3, "products": mean}})
)
