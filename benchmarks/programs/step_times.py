"""Steps that differ, that are short, that are long, and that compile."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.paired import seconds_of
from benchmarks.programs.truth import Clock, main, observer, until, work_in_python


def quantiles(times: list[float]) -> dict[str, Any]:
    """Those of the program's own clock."""
    p50, p95, p99 = np.quantile(times, (0.5, 0.95, 0.99))
    return {"p50": p50, "p95": p95, "p99": p99, "step_seconds": sum(times) / len(times)}


def slow_steps(how: str = "") -> dict[str, Any]:
    """Each twelfth step takes far longer than the others.

    With `ahead` the host waits each fourth step only, and the device does what the slow ones wait for.
    """
    obs = observer()
    train_step = obs.watch(jax.jit(lambda p, x: p + 0.1 * (x.T @ x)))
    p, x = jnp.zeros((64, 64)), np.ones((64, 64), np.float32)
    p = train_step(p, x).block_until_ready()
    clock = Clock()
    for number in clock.over(obs.steps(range(500))):
        p = train_step(p, x)
        if how != "ahead" or number % 4 == 0:
            p.block_until_ready()
        time.sleep(0.3 if number % 12 == 7 else 0.008)
    return quantiles(clock.times)


def short_steps(microseconds: str) -> dict[str, Any]:
    """Steps of so many microseconds, whose host waits in each; each fourth takes twice as long."""
    pause = float(microseconds) * 1e-6
    obs = observer()
    train_step = obs.watch(jax.jit(lambda x: x * 1.01))
    x = train_step(jnp.zeros(8)).block_until_ready()
    clock = Clock()
    for number in clock.over(obs.steps(until(8.0))):
        began = time.perf_counter()
        x = train_step(x).block_until_ready()
        work_in_python(began + pause * (1 + (number % 4 == 3)) - time.perf_counter())
    return quantiles(clock.times)


def long_steps() -> dict[str, Any]:
    """Steps of about three seconds, longer than a profiler window, of products alone. Nothing is watched or marked."""
    width = 2048
    x, product = jax.random.normal(jax.random.key(0), (width, width)), jax.jit(lambda x: jnp.sin(x @ x))
    product(x).block_until_ready()
    products = max(1, round(3.0 / seconds_of(lambda: product(x).block_until_ready())))

    @jax.jit
    def train_step(x: Any) -> Any:
        for _ in range(products):
            x = jnp.sin(x @ x)
        return x

    x, clock = train_step(x).block_until_ready(), Clock()
    for _ in clock.over(range(10)):
        x = train_step(x).block_until_ready()
    flops = products * 2.0 * width**3
    return {"label": "compute", "step_seconds": clock.step_seconds, "matrix_flops": flops}


def compiling() -> dict[str, Any]:
    """Each fortieth step has a new shape, and compiles: how long steps take with those, and without."""
    obs = observer()

    def tower(x: Any) -> Any:
        for _ in range(30):
            x = jnp.tanh(x @ weights)
        return x.sum()

    weights = jax.random.normal(jax.random.key(0), (256, 256)) / 16
    train_step = obs.watch(jax.jit(tower))
    train_step(jnp.ones((64, 256))).block_until_ready()
    clock = Clock()
    for number in clock.over(obs.steps(until(12.0))):
        rows = 64 + (number % 40 == 39) * (number // 40 + 1)
        train_step(np.ones((rows, 256), np.float32)).block_until_ready()
    usual = [seconds for number, seconds in enumerate(clock.times) if number % 40 != 39]
    return {"without": sum(usual) / len(usual), "step_seconds": sum(clock.times) / len(clock.times)}


if __name__ == "__main__":
    main(slow_steps, short_steps, long_steps, compiling)
