"""The training loop of the soak, with jaxobs or without: the same steps, recompiles and cleared caches for one seed.

    python -m benchmarks.soak.job FOLDER SEED {observed,plain}

It goes on until the file `end` is in FOLDER. With jaxobs it leaves there the `address` of /metrics and the last
`snapshot.json`.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = (32, 48, 64, 80, 96, 112, 128, 160)
"""Of a batch. A fixed set: JAX keeps each shape's executable for as long as the job does not clear its caches."""

CHANGE_SECONDS = 8.0
"""Between two changes of the batch's size, on average."""

CLEARED = 0.3
"""So often a change clears JAX's caches first, as programs do that make many shapes; all sizes compile anew then."""

PAUSE_SECONDS = 0.004
"""A step's wait for its input: the soak shall leave the machine to others."""

WIDTH = 64


def batches(end: Path, chance: random.Random) -> Iterator[Any]:
    """A batch of the size of the moment, until the end."""
    import jax
    import jax.numpy as jnp

    made = [jnp.ones((size, WIDTH)) for size in SIZES]
    batch, change = made[0], 0.0
    while not end.exists():
        if time.monotonic() >= change:
            change = time.monotonic() + chance.expovariate(1 / CHANGE_SECONDS)
            if chance.random() < CLEARED:
                jax.clear_caches()
            batch = chance.choice(made)
        time.sleep(PAUSE_SECONDS)
        yield batch


def main() -> None:
    """Train until told to end."""
    folder, seed, how = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    import jax.numpy as jnp

    from tests.layered_job import train_step_of

    function: Any = train_step_of(0.001)
    steps: Any = batches(folder / "end", random.Random(seed))
    obs: Any = None
    if how == "observed":
        import jaxobs

        obs = jaxobs.instrument()
        function, steps = obs.watch(function), obs.steps(steps, examples=64)
        while obs.address is None:
            time.sleep(0.05)  # the agent starts
        (folder / "address").write_text(obs.address)
    weights = [jnp.eye(WIDTH)]
    for done, batch in enumerate(steps):
        weights, value = function(weights, batch)
        if obs is not None:
            obs.record(loss=value)
        if done % 20 == 0:
            float(value)
    if obs is not None:
        obs.shutdown(timeout=20)
        (folder / "snapshot.json").write_text(obs.snapshot().to_json())


if __name__ == "__main__":
    main()
