"""A variational autoencoder whose epoch is one jitted call: a `fori_loop` over the batches that stay on the device."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
from truth import dense_flops, report, steps, watch

BATCH, BATCHES, EPOCHS, PIXELS, HIDDEN, LATENT = 128, 40, 20, 784, 500, 20


def init(seed):
    generator = np.random.default_rng(seed)
    shapes = {
        "encode": (PIXELS, HIDDEN), "mean": (HIDDEN, LATENT), "scale": (HIDDEN, LATENT),
        "decode": (LATENT, HIDDEN), "pixels": (HIDDEN, PIXELS),
    }  # fmt: skip
    return {
        name: jnp.asarray(generator.standard_normal(shape, np.float32) / shape[0] ** 0.5)
        for name, shape in shapes.items()
    }


def negative_elbo(params, key, x):
    hidden = jax.nn.softplus(x @ params["encode"])
    mean, log_scale = hidden @ params["mean"], 0.1 * hidden @ params["scale"]
    z = mean + jnp.exp(log_scale) * jax.random.normal(key, mean.shape)
    logits = jax.nn.softplus(z @ params["decode"]) @ params["pixels"]
    likelihood = -optax.sigmoid_binary_cross_entropy(logits, x).sum(-1)
    divergence = 0.5 * (jnp.exp(2 * log_scale) + mean**2 - 1 - 2 * log_scale).sum(-1)
    return jnp.mean(divergence - likelihood)


optimizer = optax.adam(1e-3)


@jax.jit
def train_epoch(params, opt_state, key, data):
    def body(number, carry):
        loss, params, opt_state = carry
        step_key = jax.random.fold_in(key, number)
        value, grads = jax.value_and_grad(negative_elbo)(params, step_key, data[number])
        updates, opt_state = optimizer.update(grads, opt_state)
        return loss + value, optax.apply_updates(params, updates), opt_state

    return jax.lax.fori_loop(0, BATCHES, body, (0.0, params, opt_state))


train_epoch = watch(train_epoch)
data = jnp.asarray(np.random.default_rng(1).random((BATCHES, BATCH, PIXELS)) < 0.3, jnp.float32)
params = init(0)
opt_state = optimizer.init(params)

began = 0.0
for epoch in steps(range(EPOCHS + 1)):
    loss, params, opt_state = train_epoch(params, opt_state, jax.random.key(epoch), data)
    print(f"Epoch {epoch}: loss = {loss / BATCHES:.4f}")
    if epoch == 0:
        began = time.perf_counter()
jax.block_until_ready(params)
seconds = time.perf_counter() - began
# The encoder's two heads are one product of twice the width, as far as FLOPs go; the decoder's input has a gradient.
flops = dense_flops(BATCH, PIXELS, HIDDEN, 2 * LATENT) + 3 * 2.0 * BATCH * (LATENT * HIDDEN + HIDDEN * PIXELS)
report("train_epoch", EPOCHS, seconds, params, matrix_flops=BATCHES * flops, iterations=BATCHES)
