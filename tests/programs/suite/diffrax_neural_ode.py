"""diffrax: a neural ordinary differential equation with an adaptive solver, fitted by a jitted `make_step`."""

import time

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from truth import report, steps, watch

BATCH, STEPS, EVERY, LENGTH = 32, 600, 50, 40


class Func(eqx.Module):
    """The vector field."""

    mlp: eqx.nn.MLP

    def __init__(self, *, key):
        self.mlp = eqx.nn.MLP(2, 2, width_size=64, depth=2, activation=jax.nn.softplus, key=key)

    def __call__(self, t, y, args):
        return self.mlp(y)


class NeuralODE(eqx.Module):
    """Solves it from a first value, and gives the values at `ts`."""

    func: Func

    def __call__(self, ts, y0):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(self.func), diffrax.Tsit5(), t0=ts[0], t1=ts[-1], dt0=ts[1] - ts[0], y0=y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6), saveat=diffrax.SaveAt(ts=ts),
        ).ys  # fmt: skip


def spirals(count, seed):
    ts = np.linspace(0.0, 10.0, LENGTH, dtype=np.float32)
    start = np.random.default_rng(seed).uniform(-0.6, 1.0, (count, 2))
    radius, angle = np.hypot(*start.T)[:, None], np.arctan2(*start.T[::-1])[:, None]
    decay = radius * np.exp(-0.1 * ts)
    return ts, np.stack([decay * np.cos(angle + ts), decay * np.sin(angle + ts)], -1).astype(np.float32)


def dataloader(array, batch_size, seed):
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(len(array))
        for start in range(0, len(array) - batch_size + 1, batch_size):
            yield array[order[start : start + batch_size]]


@eqx.filter_value_and_grad
def grad_loss(model, ti, yi):
    predicted = jax.vmap(model, in_axes=(None, 0))(ti, yi[:, 0])
    return jnp.mean((yi - predicted) ** 2)


@watch
@eqx.filter_jit
def make_step(ti, yi, model, opt_state):
    loss, grads = grad_loss(model, ti, yi)
    updates, opt_state = optim.update(grads, opt_state)
    return loss, eqx.apply_updates(model, updates), opt_state


ts, ys = spirals(256, 0)
model = NeuralODE(Func(key=jax.random.key(0)))
optim = optax.adabelief(3e-3)
opt_state = optim.init(eqx.filter(model, eqx.is_inexact_array))

began = 0.0
for step, yi in steps(zip(range(STEPS), dataloader(ys, BATCH, 1), strict=False)):
    loss, model, opt_state = make_step(ts, yi, model, opt_state)
    if step % EVERY == 0 or step == STEPS - 1:
        print(f"Step: {step}, Loss: {loss:.6f}")
    if step == 0:
        began = time.perf_counter()
jax.block_until_ready(model)
report("make_step", STEPS - 1, time.perf_counter() - began, eqx.filter(model, eqx.is_array))
