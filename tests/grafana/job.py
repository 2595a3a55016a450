"""A training job for the dashboards: it compiles again, waits for input, saves, grows, and is profiled.

`python job.py` says lines of JSON and waits at its standard input before it ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs

SLOWDOWN = float(os.environ.get("SLOWDOWN", "1"))
"""How many times longer the loader takes: of the rank that lags."""

WIDTH = 256
TOKENS = 64 * 16
grown: list[jax.Array] = []


@jax.jit
def train_step(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    def loss_of(w: jax.Array) -> jax.Array:
        with jax.named_scope("hidden"):
            hidden = jnp.tanh(batch @ w)
        return jnp.mean(jnp.square(hidden @ w.T - batch))

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    return weights - 0.1 * gradient, loss


@jax.jit
def evaluate(weights: jax.Array, batch: jax.Array) -> jax.Array:
    return jnp.mean(jnp.square((batch @ weights).astype(jnp.bfloat16) @ weights.T.astype(jnp.bfloat16)))


def batches(count: int, rows: int, wait: float) -> Iterator[jax.Array]:
    for _ in range(count):
        time.sleep(SLOWDOWN * wait)
        yield jnp.asarray(np.ones((rows, WIDTH), np.float32))


def train(
    obs: jaxobs.Observer, weights: jax.Array, count: int, rows: int, wait: float, grow: int = 0
) -> jax.Array:
    for batch in obs.steps(batches(count, rows, wait), examples=rows, tokens=TOKENS):
        weights, loss = watched(weights, batch)
        obs.record(loss=loss)
        loss.block_until_ready()
        if grow:
            grown.append(jnp.zeros((grow,), jnp.float32) + len(grown))
    return weights


if "COORDINATOR" in os.environ:
    ranks, rank = (int(os.environ[name]) for name in ("RANKS", "RANK"))
    jax.distributed.initialize(os.environ["COORDINATOR"], ranks, rank)
with jaxobs.instrument() as obs:
    watched = obs.watch(train_step)
    watched_evaluation = obs.watch(evaluate)
    weights = jnp.ones((WIDTH, WIDTH), jnp.float32) / WIDTH
    weights = train(obs, weights, 150, 64, 0.005)
    with obs.phase("checkpoint"):
        np.asarray(weights)
        time.sleep(1.0)
    # Another shape: compiled again. Rows enough for a run of milliseconds: below one, polls cannot time it.
    weights = train(obs, weights, 150, 4096, 0.005)
    weights = train(obs, weights, 60, 64, 0.05)  # the loader is the limit
    for batch in obs.steps(batches(100, 4096, 0.01), loop="eval", examples=4096):
        watched_evaluation(weights, batch).block_until_ready()
    window = threading.Thread(target=obs.profile, args=(1.0,))
    window.start()
    weights = train(obs, weights, 300, 64, 0.005, grow=100_000)
    window.join()
    weights = train(obs, weights, 100, 64, 0.005)
    time.sleep(3.0)  # the profiler window is read, and the figures come to rest
    print(
        json.dumps({"address": obs.address, "snapshot": obs.snapshot(5.0).to_dict()}, default=str), flush=True
    )
    sys.stdin.readline()
