"""`jax.pmap` over two devices of this CPU: gradients are averaged by `pmean`, the state is replicated."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import functools
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
from truth import dense_flops, report, steps, watch

DEVICES, BATCH, STEPS, WIDTHS = 2, 128, 200, (512, 1024, 1024, 16)


def init(seed):
    generator = np.random.default_rng(seed)
    return [
        (generator.standard_normal((inner, outer), np.float32) / inner**0.5, np.zeros(outer, np.float32))
        for inner, outer in itertools.pairwise(WIDTHS)
    ]


def predict(params, x):
    for weights, bias in params[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = params[-1]
    return x @ weights + bias


def loss_fn(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


@watch
@functools.partial(jax.pmap, axis_name="batch")
def update(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    grads = jax.lax.pmean(grads, axis_name="batch")
    loss = jax.lax.pmean(loss, axis_name="batch")
    return jax.tree.map(lambda p, g: p - 0.05 * g, params, grads), loss


generator = np.random.default_rng(1)
x = generator.standard_normal((DEVICES, BATCH, WIDTHS[0]), np.float32)
y = np.sin(x[..., : WIDTHS[-1]])
params = jax.tree.map(lambda leaf: np.stack([leaf] * DEVICES), init(0))
params, loss = update(params, x, y)
params, loss = update(params, x, y)  # its inputs are on the devices now: JAX compiles once more
jax.block_until_ready(params)

# The loss is read in each step. Where the host ran ahead, XLA's collectives on a CPU of two cores waited for each other
# for ever: steps of both devices shared two threads (jaxlib 0.10.2, "may be stuck", then abort after 40 s).
losses = []
began = time.perf_counter()
for step in steps(range(STEPS)):
    params, loss = update(params, x, y)
    losses.append(float(loss[0]))
    if step % 50 == 0:
        print(step, f"{losses[-1]:.5f}")
jax.block_until_ready(params)
seconds = time.perf_counter() - began
report("update", STEPS, seconds, params, matrix_flops=dense_flops(BATCH, *WIDTHS))
