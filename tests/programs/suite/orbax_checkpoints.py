"""orbax: a `CheckpointManager` saves the state of a training loop each fifty steps, and the last is restored."""

import itertools
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from truth import dense_flops, report, steps, watch

BATCH, STEPS, EVERY, WIDTHS = 256, 400, 50, (512, 1024, 1024, 64)


def init(seed):
    generator = np.random.default_rng(seed)
    return {
        f"layer{number}": jnp.asarray(generator.standard_normal((inner, outer), np.float32) / inner**0.5)
        for number, (inner, outer) in enumerate(itertools.pairwise(WIDTHS))
    }


def loss_fn(params, x):
    y = x
    for weights in params.values():
        y = jnp.tanh(y @ weights)
    return jnp.mean((y - x[:, : WIDTHS[-1]]) ** 2)


optimizer = optax.adam(1e-3)


@jax.jit
def train_step(params, opt_state, x):
    loss, grads = jax.value_and_grad(loss_fn)(params, x)
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


train_step = watch(train_step)


def main(directory):
    params = init(0)
    opt_state = optimizer.init(params)
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=EVERY)
    data = np.random.default_rng(1).standard_normal((8, BATCH, WIDTHS[0]), np.float32)
    with ocp.CheckpointManager(directory, options=options) as manager:
        params, opt_state, loss = train_step(params, opt_state, data[0])
        jax.block_until_ready(loss)
        began = time.perf_counter()
        for step in steps(range(STEPS)):
            params, opt_state, loss = train_step(params, opt_state, data[step % len(data)])
            if manager.should_save(step):
                manager.save(step, args=ocp.args.StandardSave({"params": params, "opt_state": opt_state}))
                print(step, f"{loss:.5f}")
        jax.block_until_ready(params)
        seconds = time.perf_counter() - began
        manager.wait_until_finished()
        last = manager.latest_step()
        restored = manager.restore(
            last, args=ocp.args.StandardRestore({"params": params, "opt_state": opt_state})
        )
    print("restored", last)
    report(
        "train_step", STEPS, seconds, (params, restored["params"]), matrix_flops=dense_flops(BATCH, *WIDTHS)
    )


with tempfile.TemporaryDirectory() as folder:
    main(folder)
