"""Step time with jaxobs over step time without: paired runs in processes of their own, in turn; median ratio.

    python benchmarks/overhead.py [--pairs 6] [--seconds 5] [--size 256]

The loop marks its steps, watches its function, records its loss and reads it every twentieth step. `--size` is the width
of the layer: 128 makes steps of about 0.5 ms on two cores, 512 of about 5 ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from typing import Any


def train(*, observed: bool, seconds: float, size: int) -> float:
    """Seconds a step, of a loop that runs for about that long after its compile."""
    import jax
    import jax.numpy as jnp

    import jaxobs

    def loss(weights: Any, batch: Any) -> Any:
        return jnp.mean((jnp.tanh(batch @ weights) @ weights.T - batch) ** 2)

    def step(weights: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, batch)
        return weights - 0.001 * gradient, value

    jitted: Any = jax.jit(step, donate_argnums=0)
    batch = jnp.ones((256, size)) / size
    weights = jnp.ones((size, size)) / size
    observer = jaxobs.instrument() if observed else contextlib.nullcontext()
    with observer as obs:
        function = obs.watch(jitted) if observed else jitted
        weights, value = function(weights, batch)
        value.block_until_ready()
        started = time.perf_counter()
        steps = 0

        def batches() -> Any:
            while time.perf_counter() - started < seconds:
                yield batch

        for item in obs.steps(batches(), examples=256) if observed else batches():
            weights, value = function(weights, item)
            steps += 1
            if observed:
                obs.record(loss=value)
            if steps % 20 == 0:
                float(value)
        value.block_until_ready()
        return (time.perf_counter() - started) / steps


def main() -> None:
    """Print each pair and the median."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--child", choices=("observed", "plain"))
    options = parser.parse_args()
    if options.child:
        each = train(observed=options.child == "observed", seconds=options.seconds, size=options.size)
        print(json.dumps(each))
        return
    ratios = []
    for pair in range(options.pairs):
        order = ("plain", "observed") if pair % 2 else ("observed", "plain")
        took = {}
        for child in order:
            command = [sys.executable, __file__, "--child", child]
            command += ["--seconds", str(options.seconds), "--size", str(options.size)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            took[child] = json.loads(done.stdout.splitlines()[-1])
        ratios.append(took["observed"] / took["plain"])
        print(
            f"plain {took['plain'] * 1e3:.3f} ms, observed {took['observed'] * 1e3:.3f} ms, {ratios[-1]:.4f}"
        )
    print(f"step time with over without: median {statistics.median(ratios):.4f} of {len(ratios)} pairs")


if __name__ == "__main__":
    main()
