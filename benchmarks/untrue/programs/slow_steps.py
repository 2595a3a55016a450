"""Each twelfth step takes far longer than the others: the quantiles of its own clock.

With the argument `ahead` the host waits each fourth step only, and the device does what the slow ones wait for.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs

AHEAD = sys.argv[1:] == ["ahead"]
STEPS = 500
obs = jaxobs.instrument()
train_step = obs.watch(jax.jit(lambda p, x: p + 0.1 * (x.T @ x)))
p, x = jnp.zeros((64, 64)), np.ones((64, 64), np.float32)
p = train_step(p, x).block_until_ready()
times = []
last = time.perf_counter()
for number in obs.steps(range(STEPS)):
    p = train_step(p, x)
    if not AHEAD or number % 4 == 0:
        p.block_until_ready()
    time.sleep(0.3 if number % 12 == 7 else 0.008)
    now = time.perf_counter()
    times.append(now - last)
    last = now
time.sleep(2)
p50, p95, p99 = np.quantile(times, (0.5, 0.95, 0.99))
print(json.dumps({"truth": {"p50": p50, "p95": p95, "p99": p99, "steps_per_second": STEPS / sum(times)}}))
