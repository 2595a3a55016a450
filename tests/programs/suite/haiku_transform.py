"""Haiku: a transformed network, and an update that is jitted, over batches made one by one."""

import time
from typing import NamedTuple

import haiku as hk
import jax
import numpy as np
import optax
from truth import dense_flops, report, steps, watch

BATCH, STEPS, EVERY = 200, 900, 25


class TrainingState(NamedTuple):
    """What an update changes."""

    params: hk.Params
    opt_state: optax.OptState


def net_fn(images):
    return hk.Sequential([hk.Linear(900), jax.nn.relu, hk.Linear(900), jax.nn.relu, hk.Linear(10)])(images)


network = hk.without_apply_rng(hk.transform(net_fn))
optimiser = optax.adam(1e-3)


def loss_fn(params, batch):
    logits = network.apply(params, batch["image"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()


@jax.jit
def update(state, batch):
    grads = jax.grad(loss_fn)(state.params, batch)
    updates, opt_state = optimiser.update(grads, state.opt_state)
    return TrainingState(optax.apply_updates(state.params, updates), opt_state)


@jax.jit
def evaluate(params, batch):
    return loss_fn(params, batch)


update, evaluate = watch(update), watch(evaluate)


def load_dataset(seed):
    generator = np.random.default_rng(seed)
    while True:
        yield {
            "image": generator.standard_normal((BATCH, 784), np.float32),
            "label": generator.integers(0, 10, BATCH),
        }


train, test = load_dataset(0), next(load_dataset(1))
params = network.init(jax.random.key(0), next(train)["image"])
state = TrainingState(params, optimiser.init(params))
state = update(state, next(train))
jax.block_until_ready(state)

began = time.perf_counter()
for step in steps(range(STEPS)):
    if step % EVERY == 0:
        print(step, f"{evaluate(state.params, test):.4f}")
    state = update(state, next(train))
jax.block_until_ready(state)
seconds = time.perf_counter() - began
report("update", STEPS, seconds, state.params, matrix_flops=dense_flops(BATCH, 784, 900, 900, 10))
