"""A training loop that goes on for as long as it is let, and counts its steps where somebody else can read them.

    python -m benchmarks.overhead.worker COUNTS MILLISECONDS HOW

The file COUNTS holds two numbers: steps so far, and when the last of them ended (ns of the monotonic clock). It begins
plain. At SIGUSR1 it goes on as HOW says: `plain` as before, or `jaxobs` with everything at its default (steps marked, the
function watched, the loss recorded).
"""

from __future__ import annotations

import mmap
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable
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


class Loop:
    """One model in training, its weights and the count of its steps."""

    def __init__(self, counts: mmap.mmap, milliseconds: float) -> None:
        self.step, self._weights, self._batch = train_step(*TARGETS[milliseconds])
        self._counts = counts
        self._read_every = LOSS_READ_EVERY if milliseconds < LONG_STEP_MILLISECONDS else 1
        self._done = 0
        self.asked = False

    def train(self, step: Any, steps: Iterable[Any], record: Callable[..., None] | None = None) -> None:
        """Make steps until asked to go on otherwise."""
        clock, pack, read_every, counts = time.monotonic_ns, COUNTS.pack_into, self._read_every, self._counts
        weights, batch = self._weights, self._batch
        for done, _ in enumerate(steps, self._done + 1):
            weights, value = step(weights, batch)
            if record is not None:
                record(loss=value)
            if done % read_every == 0:
                float(value)
                pack(counts, 0, done, clock())
                if self.asked:
                    break
        self._weights, self._done, self.asked = weights, done, False


def main() -> None:
    """Train until killed."""
    file, milliseconds, how = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    with file.open("r+b") as opened:
        counts = mmap.mmap(opened.fileno(), COUNTS.size)
    loop = Loop(counts, milliseconds)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(loop, "asked", True))
    loop.train(loop.step, iter(int, 1))
    if how == "jaxobs":
        import jaxobs

        observer = jaxobs.instrument()
        loop.train(observer.watch(loop.step), observer.steps(iter(int, 1), examples=256), observer.record)
    loop.train(loop.step, iter(int, 1))


if __name__ == "__main__":
    main()
