"""BlackJAX: NUTS after its window adaptation; the chain is a `lax.scan` at the top level, outside any jit."""

import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from truth import report, steps

ROWS, COLUMNS, SAMPLES, CHAINS = 4000, 24, 400, 41
generator = np.random.default_rng(0)
data = jnp.asarray(generator.standard_normal((ROWS, COLUMNS), np.float32))
labels = jnp.asarray(generator.random(ROWS) < jax.nn.sigmoid(data @ jnp.linspace(-1, 1, COLUMNS)))


def logdensity(coefficients):
    logits = data @ coefficients
    return jnp.sum(jnp.where(labels, logits, 0.0) - jax.nn.softplus(logits)) - 0.5 * jnp.sum(coefficients**2)


warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)
(state, parameters), _ = warmup.run(jax.random.key(0), jnp.zeros(COLUMNS), num_steps=300)
kernel = blackjax.nuts(logdensity, **parameters).step


@jax.jit
def one_step(state, rng_key):
    state, _ = kernel(rng_key, state)
    return state, state


def inference_loop(rng_key, initial_state, num_samples):
    keys = jax.random.split(rng_key, num_samples)
    return jax.lax.scan(one_step, initial_state, keys)


seconds = 0.0
for chain in steps(range(CHAINS)):
    began = time.perf_counter()
    state, states = inference_loop(jax.random.key(chain + 1), state, SAMPLES)
    mean = np.asarray(states.position.mean(0))
    seconds += time.perf_counter() - began if chain else 0.0  # the first compiles
    print("chain", chain, "mean of the first and the last:", np.round(mean[[0, -1]], 3))
report(("scan", "one_step", "inference_loop"), CHAINS - 1, seconds, states.position, iterations=SAMPLES)
