"""A small training job with one tool in it, for figures of whole processes.

    python -m benchmarks.costs.job TOOL SECONDS STEPS_A_SECOND

It trains for so long, says "ready" and waits for a line. Then it trains a little more, so that the tool has something to
hand over at the end, says what time it is, and ends.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.costs.peers import EVERY
from benchmarks.costs.processes import answer

AFTER_SECONDS = 0.5


def main() -> None:
    """Train, wait, end."""
    import jax
    import jax.numpy as jnp

    seconds, pace = float(sys.argv[2]), float(sys.argv[3])
    tool = EVERY[sys.argv[1]].begin()

    @jax.jit
    def train_step(weights: Any, batch: Any) -> Any:
        return weights - 0.01 * jax.grad(lambda w: jnp.mean((jnp.tanh(batch @ w) - batch) ** 2))(weights)

    batch = jnp.ones((32, 32))
    state = [train_step(batch, batch)]
    begins = time.monotonic()
    steps = [0]

    def work() -> None:
        state[0] = train_step(state[0], batch)
        steps[0] += 1
        time.sleep(max(0.0, begins + steps[0] / pace - time.monotonic()))

    answer("begun")
    tool.steps(round(seconds * pace), work)
    jax.block_until_ready(state[0])
    answer("ready")
    sys.stdin.readline()
    begins = time.monotonic() - steps[0] / pace
    tool.steps(round(AFTER_SECONDS * pace), work)
    answer(time.monotonic())
    tool.end()


if __name__ == "__main__":
    main()
