"""Steps shorter than a millisecond, whose host waits in each: the quantiles of its own clock.

The argument is how many microseconds a step takes at least; each fourth takes twice as long.
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs

PAUSE = float(sys.argv[1]) * 1e-6
obs = jaxobs.instrument()
train_step = obs.watch(jax.jit(lambda x: x * 1.01))
x = jnp.zeros(8)
x = train_step(x).block_until_ready()
times: list[float] = []
began = last = time.perf_counter()
for _ in obs.steps(iter(lambda: time.perf_counter() - began < 8.0, False)):
    x = train_step(x)
    x.block_until_ready()
    until = last + PAUSE * (1 + (len(times) % 4 == 3))
    while time.perf_counter() < until:
        pass
    now = time.perf_counter()
    times.append(now - last)
    last = now
time.sleep(2)
p50, p95, p99 = np.quantile(times, (0.5, 0.95, 0.99))
print(
    json.dumps({"truth": {"p50": p50, "p95": p95, "p99": p99, "steps_per_second": len(times) / sum(times)}})
)
