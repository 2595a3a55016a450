"""NumPyro: NUTS on a logistic regression; NumPyro's own loop calls one function for each sample."""

import os

os.environ["TQDM_DISABLE"] = "1"  # its bar shows times, and no two runs would write the same

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from truth import report

ROWS, COLUMNS, WARMUP, SAMPLES = 4000, 24, 200, 800


def model(data, labels):
    coefficients = numpyro.sample(
        "coefficients", dist.Normal(jnp.zeros(COLUMNS), jnp.ones(COLUMNS)).to_event(1)
    )
    numpyro.sample("observed", dist.Bernoulli(logits=data @ coefficients), obs=labels)


generator = np.random.default_rng(0)
data = generator.standard_normal((ROWS, COLUMNS), np.float32)
labels = (data @ np.linspace(-1, 1, COLUMNS, dtype=np.float32) + generator.logistic(size=ROWS) > 0).astype(
    np.int32
)

mcmc = MCMC(NUTS(model), num_warmup=WARMUP, num_samples=SAMPLES)
mcmc.warmup(jax.random.key(0), data, labels)
seconds, runs = 0.0, 12  # the warm-up and the first run, which are not counted here, are few of the steps
for run in range(runs):
    mcmc.post_warmup_state = mcmc.last_state
    began = time.perf_counter()
    mcmc.run(jax.random.key(run + 1), data, labels)
    samples = jax.block_until_ready(mcmc.get_samples()["coefficients"])
    seconds += time.perf_counter() - began if run else 0.0  # the first compiles
    print("run", run, "mean of the first and the last:", np.round(np.asarray(samples.mean(0))[[0, -1]], 3))
report(("_body_fn", "fori_collect"), (runs - 1) * SAMPLES, seconds, samples)
