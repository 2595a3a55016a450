"""What one run of a function takes and does."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.programs.truth import Clock, main, observer, timed_in_turn, until


def large_output() -> dict[str, Any]:
    """The only output of a watched step is 16 MiB that are not donated; the host waits each fifth step."""
    width, obs, clock = 2048, observer(), Clock()
    train_step = obs.watch(jax.jit(lambda weights: jnp.tanh(weights @ weights * 1e-4)))
    weights = train_step(jax.random.normal(jax.random.key(0), (width, width))).block_until_ready()
    for number in clock.over(obs.steps(range(60))):
        weights = train_step(weights)
        if number % 5 == 4:
            weights.block_until_ready()
    return {"step_seconds": clock.step_seconds, "matrix_flops": 2.0 * width**3}


def one_call() -> dict[str, Any]:
    """The whole training is one watched call: a `lax.scan` of 800 steps."""
    width, length = 512, 800

    def descend(weights: Any, inputs: Any) -> Any:
        def step(weights: Any, _: Any) -> Any:
            def loss(weights: Any) -> Any:
                return jnp.mean((jnp.tanh(inputs @ weights) - 0.5) ** 2)

            return weights - 0.1 * jax.grad(loss)(weights), None

        return jax.lax.scan(step, weights, None, length=length)[0]

    train = observer().watch(jax.jit(descend))
    inputs = jax.random.normal(jax.random.key(0), (width, width))
    weights, began = inputs * 0.01, time.perf_counter()
    for _ in range(2):
        weights = train(weights, inputs).block_until_ready()
    # Two products of width³ a step: forward, and the gradient of the weights.
    return {"seconds": time.perf_counter() - began, "matrix_flops": length * 2 * 2.0 * width**3}


def long_operations() -> dict[str, Any]:
    """Steps of long products, with a small operation between two of them; nothing is watched, and nothing marked.

    A profiler window that saw only the small one once took it for a run of the whole function.
    """
    width, products, clock = 1400, 6, Clock()

    @jax.jit
    def train_step(x: Any) -> Any:
        for _ in range(products):
            x = jnp.sin(x.T @ x * 1e-6)
            smallest = jax.lax.sort(x[:8], dimension=1)[:1]
            x = x + 1e-9 * smallest.sum()
        return x, x.sum()

    x, total = train_step(jax.random.normal(jax.random.key(0), (width, width)))
    total.block_until_ready()
    for _ in clock.over(until(16.0)):
        x, total = train_step(x)
        float(total)
    return {"step_seconds": clock.step_seconds, "matrix_flops": products * 2.0 * width**3}


def branches() -> dict[str, Any]:
    """`lax.cond` with branches that differ by ten times: each fourth step takes the long one. Nothing is watched."""
    width, long, short, every = 512, 60, 6, 4
    clock = Clock()

    def products(x: Any, count: int) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, y: y @ x * 1e-3, x)

    @jax.jit
    def train_step(x: Any, number: Any) -> Any:
        made = jax.lax.cond(number % every == 0, lambda x: products(x, long), lambda x: products(x, short), x)
        return made * 1e-9 + x, made[0, 0]

    x, loss = train_step(jax.random.normal(jax.random.key(0), (width, width)), 0)
    loss.block_until_ready()
    for number in clock.over(until(16.0)):
        x, loss = train_step(x, number)
        loss.block_until_ready()
    mean = (long + (every - 1) * short) / every
    return {"step_seconds": clock.step_seconds, "matrix_flops": mean * 2.0 * width**3}


def scan_outside_jit() -> dict[str, Any]:
    """Each epoch is a `lax.scan` outside any jit, as tutorials of samplers write it."""
    width, length, epochs = 512, 300, 8
    inputs = jax.random.normal(jax.random.key(0), (width // 2, width))
    weights = jnp.eye(width) * 0.01

    def step(weights: Any, _: Any) -> Any:
        loss, slope = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(inputs @ w) - 0.5) ** 2))(weights)
        return weights - 0.1 * slope, loss

    seconds = 0.0
    for epoch in range(epochs):
        began = time.perf_counter()
        weights, losses = jax.lax.scan(step, weights, None, length=length)
        losses.block_until_ready()
        seconds += time.perf_counter() - began if epoch else 0.0  # the first compiles
    return {"step_seconds": seconds / (epochs - 1), "epochs": epochs}


def in_turn(every: str, *widths: str) -> dict[str, Any]:
    """A step calls a jitted function for each width in turn, each of which needs the one before.

    The host waits at the end of each so many steps. What each function takes is told by its own clock, before and after.
    Where the host runs ahead the functions fill the steps, whose own time then gives the machine's pace between these
    measurements.
    """
    made = {f"product_{width}": _product(int(width)) for width in widths}
    before = _in_turn(made)
    obs = observer()
    watched = []
    for function, x in made.values():
        function.clear_cache()  # its executable is seen when it is compiled
        watched.append((obs.watch(function), x))
        jax.block_until_ready(watched[-1][0](x, jnp.zeros(())))
    made_last, clock = jnp.zeros(()), Clock()
    for number in clock.over(obs.steps(until(14.0))):
        for function, x in watched:
            _, made_last = function(x, made_last)
        if (number + 1) % int(every) == 0:
            made_last.block_until_ready()
    made_last.block_until_ready()
    seconds = clock.step_seconds
    time.sleep(2)  # what was timed last is told about once a second
    after = _in_turn(made)
    runs = {name: (before[name] + after[name]) / 2 for name in made}
    pace = seconds / sum(runs.values()) if int(every) > 1 else 1.0
    return {"step_seconds": seconds, "runs": {name: pace * run for name, run in runs.items()}}


def _product(width: int) -> tuple[Any, Any]:
    """A jitted function of one product, which needs a number that another one made, and its first argument."""

    def function(x: Any, before: Any) -> Any:
        y = x @ x * 1e-3 + before
        return y, y[0, 0] * 1e-9

    function.__name__ = f"product_{width}"
    jitted, x = jax.jit(function), jax.random.normal(jax.random.key(0), (width, width))
    jax.block_until_ready(jitted(x, jnp.zeros(())))
    return jitted, x


def _in_turn(made: dict[str, tuple[Any, Any]]) -> dict[str, float]:
    """Seconds of a call of each function in turn, each waited for, less those of a call that computes nothing.

    In turn, because what a small one finds in the caches depends on the large one before it.
    """
    small = jnp.zeros(())
    nothing = (jax.jit(lambda x, before: (x + 1.0, before + 1.0)), small)
    calls = {
        name: partial(function, x, small) for name, (function, x) in {"nothing": nothing, **made}.items()
    }
    found = {name: statistics.median(times) for name, times in timed_in_turn(calls, 4.0).items()}
    return {name: found[name] - found["nothing"] for name in made}


if __name__ == "__main__":
    main(large_output, one_call, long_operations, branches, scan_outside_jit, in_turn)
