"""`jax.shard_map` in a jitted step over two devices of this CPU: data parallel, with a `psum` of our own."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import functools
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from truth import dense_flops, report, steps, watch

DEVICES, BATCH, STEPS, WIDTHS = 2, 128, 200, (512, 1024, 1024, 16)
mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("data",))


def loss_fn(params, x, y):
    for weights in params[:-1]:
        x = jnp.tanh(x @ weights)
    return jnp.mean((x @ params[-1] - y) ** 2)


@functools.partial(
    jax.shard_map, mesh=mesh, in_specs=(P(), P("data"), P("data")), out_specs=(P(), P()), check_vma=False
)
def gradient(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    return jax.lax.pmean(loss, "data"), jax.lax.pmean(grads, "data")


@watch
@functools.partial(jax.jit, donate_argnums=0)
def train_step(params, x, y):
    loss, grads = gradient(params, x, y)
    return [p - 0.05 * g for p, g in zip(params, grads, strict=True)], loss


generator = np.random.default_rng(0)
params = [
    generator.standard_normal((inner, outer), np.float32) / inner**0.5
    for inner, outer in itertools.pairwise(WIDTHS)
]
params = jax.device_put(params, NamedSharding(mesh, P()))
x = generator.standard_normal((DEVICES * BATCH, WIDTHS[0]), np.float32)
y = np.sin(x[:, : WIDTHS[-1]])
x, y = jax.device_put((x, y), NamedSharding(mesh, P("data")))
params, loss = train_step(params, x, y)
jax.block_until_ready(params)

# The loss is read in each step. Where the host ran ahead, XLA's collectives on a CPU of two cores waited for each other
# for ever: steps of both devices shared two threads (jaxlib 0.10.2, "may be stuck", then abort after 40 s).
losses = []
began = time.perf_counter()
for step in steps(range(STEPS)):
    params, loss = train_step(params, x, y)
    losses.append(float(loss))
    if step % 50 == 0:
        print(step, f"{losses[-1]:.5f}")
jax.block_until_ready(params)
seconds = time.perf_counter() - began
report("train_step", STEPS, seconds, params, matrix_flops=dense_flops(BATCH, *WIDTHS))
