"""A training loop that goes on for as long as it is let, and counts its steps where somebody else can read them.

    python -m benchmarks.overhead.worker COUNTS MILLISECONDS HOW

The file COUNTS holds two numbers: steps so far, and when the last of them ended (ns of the monotonic clock). HOW is
`plain` or `jaxobs` (steps marked, the function watched, the loss recorded).
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Any

COUNTS = struct.Struct("<qq")
LOSS_READ_EVERY = 10
"""As often as training scripts print their loss; the host runs ahead in between. Of long steps each one's is read."""

LONG_STEP_MILLISECONDS = 50.0

TARGETS = {0.1: (64, 2), 1.0: (256, 1), 10.0: (512, 2), 100.0: (1024, 3)}
"""Width and layers of the model for steps of about so many milliseconds on two cores."""


def train_step(width: int, layers: int) -> tuple[Any, Any, Any]:
    """A jitted step of a small multilayer perceptron, its weights and its batch."""
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, batch: Any) -> Any:
        hidden = batch
        for _ in range(layers):
            hidden = jnp.tanh(hidden @ weights)
        return jnp.mean((hidden - batch) ** 2)

    def step(weights: Any, batch: Any) -> Any:
        value, slope = jax.value_and_grad(loss)(weights, batch)
        return weights - 0.001 * slope, value

    key = jax.random.key(0)
    weights = jax.random.normal(key, (width, width)) / width
    batch = jax.random.normal(key, (width, width)) / width
    return jax.jit(step, donate_argnums=0), weights, batch


def main() -> None:
    """Train until killed."""
    file, milliseconds, how = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    step, weights, batch = train_step(*TARGETS[milliseconds])
    with file.open("r+b") as opened:
        counts = mmap.mmap(opened.fileno(), COUNTS.size)
    steps: Any = iter(int, 1)
    record: Any = None
    if how == "jaxobs":
        import jaxobs

        observer = jaxobs.instrument()
        step, steps, record = observer.watch(step), observer.steps(steps, examples=256), observer.record
    clock, pack = time.monotonic_ns, COUNTS.pack_into
    read_every = LOSS_READ_EVERY if milliseconds < LONG_STEP_MILLISECONDS else 1
    for done, _ in enumerate(steps, 1):
        weights, value = step(weights, batch)
        if record is not None:
            record(loss=value)
        if done % read_every == 0:
            float(value)
            pack(counts, 0, done, clock())


if __name__ == "__main__":
    main()
