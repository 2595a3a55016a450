"""Equinox: `filter_jit` and `filter_value_and_grad`, the loss printed from time to time."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from truth import dense_flops, report, steps, watch

BATCH, STEPS, EVERY = 256, 220, 20


def dataloader(arrays, batch_size, seed):
    generator = np.random.default_rng(seed)
    count = arrays[0].shape[0]
    while True:
        order = generator.permutation(count)
        for start in range(0, count - batch_size + 1, batch_size):
            yield tuple(array[order[start : start + batch_size]] for array in arrays)


@eqx.filter_value_and_grad
def compute_loss(model, x, y):
    return jnp.mean((jax.vmap(model)(x) - y) ** 2)


@watch
@eqx.filter_jit
def make_step(model, x, y, opt_state):
    loss, grads = compute_loss(model, x, y)
    updates, opt_state = optim.update(grads, opt_state)
    return loss, eqx.apply_updates(model, updates), opt_state


generator = np.random.default_rng(0)
xs = generator.standard_normal((BATCH * 16, 256), np.float32)
ys = np.sin(xs.sum(axis=1, keepdims=True))
model = eqx.nn.MLP(in_size=256, out_size=1, width_size=1024, depth=3, key=jax.random.key(1))
optim = optax.adam(1e-3)
opt_state = optim.init(eqx.filter(model, eqx.is_array))

began = 0.0
for step, (x, y) in steps(zip(range(STEPS), dataloader((xs, ys), BATCH, 2), strict=False)):
    loss, model, opt_state = make_step(model, x, y, opt_state)
    if step % EVERY == 0:
        print(f"step={step}, loss={loss.item():.5f}")
    if step == 0:
        began = time.perf_counter()
jax.block_until_ready(model)
seconds = time.perf_counter() - began
report(
    "make_step", STEPS - 1, seconds, eqx.filter(model, eqx.is_array),
    matrix_flops=dense_flops(BATCH, 256, 1024, 1024, 1024, 1),
)  # fmt: skip
