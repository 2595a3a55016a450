"""Only multiplies matrices, for 12 s; the host runs 20 steps ahead, then reads the loss.

With the argument `marked` its loop is marked and its function watched.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import jax

WIDTH, AHEAD, SECONDS = 768, 20, 12.0


@jax.jit
def train_step(x: Any) -> Any:
    """Three products, and the loss."""
    for _ in range(3):
        x = x @ x * 1e-3
    return x, x[0, 0]


MARKED = "marked" in sys.argv[1:]
step: Any = train_step
steps: Any = iter
if MARKED:
    import jaxobs

    obs = jaxobs.instrument()
    step, steps = obs.watch(train_step), obs.steps
x, loss = step(jax.random.normal(jax.random.key(0), (WIDTH, WIDTH)))
float(loss)
began = time.perf_counter()


def numbers() -> Iterator[int]:
    """Step numbers, until the time is up."""
    number = 0
    while time.perf_counter() - began < SECONDS or number % AHEAD:
        yield number
        number += 1


waited = 0.0
for number in steps(numbers()):
    x, loss = step(x)
    if number % AHEAD == AHEAD - 1:
        begun = time.perf_counter()
        float(loss)
        waited += time.perf_counter() - begun
seconds = time.perf_counter() - began
if MARKED:
    time.sleep(2)  # the last steps are told about once a second
# The device works throughout: the host's part of each 20 steps is a millisecond or two.
print(json.dumps({"truth": {"step_seconds": seconds / (number + 1), "waited": waited / seconds}}))
