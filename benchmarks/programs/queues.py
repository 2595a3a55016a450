"""Hosts that run ahead of their device."""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.paired import seconds_of
from benchmarks.programs.truth import Clock, main, observer, until


def multiplied(x: Any, products: int, scale: float) -> Any:
    """So many products, one after the other."""
    for _ in range(products):
        x = jnp.tanh(x @ x * scale)
    return x


def runs_out(products: str, every: str, steps: str) -> dict[str, Any]:
    """The loss is read now and then, and the data runs out while steps are in flight. Nothing is watched or marked."""

    @jax.jit
    def train_step(x: Any) -> Any:
        x = jax.lax.fori_loop(0, int(products), lambda _, x: x @ x * 1e-3, x)
        return x, x[0, 0]

    x, loss = train_step(jax.random.normal(jax.random.key(0), (768, 768)))
    float(loss)
    seconds, began = 0.0, time.perf_counter()
    for number in range(1, int(steps) + 1):
        x, loss = train_step(x)
        if number % int(every) == 0:
            float(loss)
            seconds = (time.perf_counter() - began) / number
    return {"label": "compute", "step_seconds": seconds}


def donated_outputs(how: str = "") -> dict[str, Any]:
    """All outputs of a watched step are donated to the next: none is there to be asked when the device is done.

    The host runs ahead as far as JAX lets it; with `waits` it reads a value each tenth step.
    """
    width, products = 1024, 3

    def renewed(state: dict[str, Any]) -> dict[str, Any]:
        return {"weights": multiplied(state["weights"], products, 1e-3), "steps": state["steps"] + 1}

    obs = observer()
    train_step = obs.watch(jax.jit(renewed, donate_argnums=0))
    state = {"weights": jax.random.normal(jax.random.key(0), (width, width)), "steps": jnp.zeros((), int)}
    state = jax.block_until_ready(train_step(state))
    clock = Clock()
    for number in clock.over(obs.steps(until(6.0))):
        state = train_step(state)
        if how == "waits" and number % 10 == 0:
            state["steps"].block_until_ready()
    jax.block_until_ready(state)
    return {"step_seconds": clock.step_seconds, "matrix_flops": products * 2.0 * width**3}


def epochs(width: str, steps: str, count: str) -> dict[str, Any]:
    """Epochs that are dispatched in a moment: the host leaves its loop, and waits for the device outside it."""
    products = 8
    obs = observer()

    @obs.watch  # type: ignore[untyped-decorator]
    @jax.jit
    def train_step(weights: Any) -> Any:
        weights = multiplied(weights, products, 1e-2)
        return weights, weights.sum()

    def epoch(weights: Any) -> Any:
        losses = []
        for _ in obs.steps(range(int(steps))):
            weights, loss = train_step(weights)
            losses.append(loss)
        jax.device_get(losses)
        return weights

    weights = epoch(jnp.ones((int(width), int(width))))  # compiles
    clock = Clock()
    for _ in clock.over(range(int(count))):
        weights = epoch(weights)
    seconds = clock.step_seconds / int(steps)
    return {"step_seconds": seconds, "matrix_flops": products * 2.0 * int(width) ** 3}


def evaluation() -> dict[str, Any]:
    """Forty steps are dispatched in a moment, then a loss is evaluated and read: behind all of them.

    An evaluation by a clock of its own: twenty in a row and one wait, before and after. A step by that of the loop, in
    which the device does nothing else.
    """

    @jax.jit
    def train_step(x: Any) -> Any:
        return multiplied(x, 3, 1e-3)

    @jax.jit
    def evaluate(x: Any) -> Any:
        return multiplied(x, 2, 1e-3).sum()

    def seconds_of_evaluation() -> float:
        return seconds_of(lambda: jax.block_until_ready([evaluate(x) for _ in range(20)])) / 20

    x, steps, clock, obs = jax.random.normal(jax.random.key(0), (768, 768)), 40, Clock(), observer()
    step, loss_of = obs.watch(train_step), obs.watch(evaluate)
    jax.block_until_ready((step(x), loss_of(x)))
    before, weights = seconds_of_evaluation(), x
    for _ in clock.over(until(16.0)):
        for _ in obs.steps(range(steps)):
            weights = step(weights)
        float(loss_of(weights))
    turn = clock.step_seconds
    evaluation = (before + seconds_of_evaluation()) / 2
    return {"runs": {"train_step": (turn - evaluation) / steps, "evaluate": evaluation}}


def passes(steps: str, evaluations: str, pause: str) -> dict[str, Any]:
    """Steps, evaluations and a pause, again and again; the host dispatches each in a moment. Nothing is marked."""

    @jax.jit
    def train_step(x: Any) -> Any:
        return multiplied(x, 3, 1e-3)

    @jax.jit
    def evaluate(x: Any) -> Any:
        return multiplied(x, 2, 1e-3).sum()

    x = jax.random.normal(jax.random.key(0), (512, 512))
    jax.block_until_ready((train_step(x), evaluate(x)))
    calls = {"train_step": (train_step, int(steps)), "evaluate": (evaluate, int(evaluations))}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in until(25.0):
        for name, (function, count) in calls.items():
            began = time.perf_counter()
            jax.block_until_ready([function(x) for _ in range(count)])
            seconds[name].append((time.perf_counter() - began) / count)
        time.sleep(float(pause))
    return {"rates": {name: 1 / fmean(times) for name, times in seconds.items()}}


if __name__ == "__main__":
    main(runs_out, donated_outputs, epochs, evaluation, passes)
