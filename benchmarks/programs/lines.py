"""A transformer of which each costly line can be left out: what the step takes without it is what the line costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.programs.truth import main, observer, timed_in_turn, until

LAYERS, BATCH, LENGTH, WIDTH, HEADS = 3, 4, 256, 192, 4


def attention(x: Any, layer: Any) -> Any:  # noqa: D103
    query, key, value = jnp.moveaxis((x @ layer["qkv"]).reshape(BATCH, LENGTH, 3, HEADS, -1), 2, 0)
    weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", query, key) / WIDTH)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape)


def expanded(x: Any, layer: Any) -> Any:  # noqa: D103
    return jnp.tanh(x @ layer["up"]) @ layer["down"]


def ordered(x: Any, _: Any) -> Any:  # noqa: D103
    return jnp.sort(x[:, ::2], axis=1).repeat(2, axis=1)


LINES: tuple[Callable[..., Any], ...] = (attention, expanded, ordered)


def _step(kind: str, left_out: str) -> Any:
    kept = [line for line in LINES if line.__name__ != left_out]

    def block(x: Any, layer: Any) -> Any:
        for line in kept:
            x = x + line(x, layer)
        return x

    def loss(layers: Any, x: Any) -> Any:
        made = jax.checkpoint(block) if kind == "remat" else block
        if kind == "scan":
            return (jax.lax.scan(lambda x, layer: (made(x, layer), None), x, layers)[0] ** 2).mean()
        for number in range(LAYERS):
            x = made(x, {name: stacked[number] for name, stacked in layers.items()})
        return (x**2).mean()

    def train_step(layers: Any, x: Any) -> Any:
        slopes = jax.grad(loss)(layers, x)
        return jax.tree_util.tree_map(lambda weight, slope: weight - 1e-3 * slope, layers, slopes)

    return jax.jit(train_step)


def lines(kind: str) -> dict[str, Any]:
    """`plain`, `remat`, or `scan`: the lines, the dearest first, by how much faster the step is without each."""
    shapes = {"qkv": (WIDTH, 3 * WIDTH), "up": (WIDTH, 9 * WIDTH), "down": (9 * WIDTH, WIDTH)}
    layers = {name: jnp.full((LAYERS, *shape), 0.01) for name, shape in shapes.items()}
    x = jax.random.normal(jax.random.key(0), (BATCH, LENGTH, WIDTH))
    steps = {name: _step(kind, name) for name in ("", *(line.__name__ for line in LINES))}
    calls = {name: partial(step, layers, x) for name, step in steps.items()}
    for call in calls.values():
        jax.block_until_ready(call())
    seconds = {name: min(times) for name, times in timed_in_turn(calls, 15.0).items()}
    cost = {name: seconds[""] - each for name, each in seconds.items() if name}
    obs = observer()
    step = obs.watch(_step(kind, ""))
    for _ in obs.steps(until(25.0)):
        jax.block_until_ready(step(layers, x))
    return {"cost": dict(sorted(cost.items(), key=lambda pair: -pair[1])), "step_seconds": seconds[""]}


if __name__ == "__main__":
    main(lines)
