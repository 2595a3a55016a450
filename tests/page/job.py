"""A small training that waits for its input, and is given another shape of it when a file appears."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import jaxobs

sys.path.append(str(Path(__file__).parents[2]))
from tests.layered_job import train_step_of

WIDTH, LAYERS = 256, 3


def main(shape_file: Path, seconds: float, recorded: str = "gradient_norm") -> None:
    drawn = np.random.default_rng(0)
    until = time.monotonic() + seconds

    def rows() -> int:
        try:
            return int(shape_file.read_text())
        except (OSError, ValueError):
            return 128

    def batches():
        while time.monotonic() < until:
            time.sleep(0.01)
            yield jnp.asarray(drawn.normal(size=(rows(), WIDTH)), jnp.float32)

    with jaxobs.instrument() as observer:
        step = observer.watch(train_step_of(0.5))
        weights = [jnp.asarray(drawn.normal(size=(WIDTH, WIDTH)) / 16, jnp.float32) for _ in range(LAYERS)]
        print(observer.address, flush=True)
        for batch in observer.steps(batches(), examples=128, tokens=128 * 64):
            weights, loss = step(weights, batch)
            observer.record(loss=loss, **{recorded: float(loss) ** 0.5})


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
