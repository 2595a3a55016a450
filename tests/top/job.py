"""One rank of a small training, of which files say how long its input and its host take, and how many rows there are.

Where there is a file `waits`, the host waits for the device in each step; `lock-RANK` and `native-RANK` make a rank stand
still, waiting for a lock, and in native code that holds the interpreter lock.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs

sys.path.append(str(Path(__file__).parents[2]))
from tests.layered_job import train_step_of
from tests.top.ranks import INPUT_SECONDS

WIDTH, LAYERS = 128, 2


def stand_still(folder: Path, rank: int) -> None:
    if (folder / f"lock-{rank}").exists():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()
    if (folder / f"native-{rank}").exists():
        ctypes.PyDLL(None).sleep(3600)  # native code that does not release the interpreter lock


def main(folder: Path, seconds: float) -> None:
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(os.environ["COORDINATOR"], count, rank)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    drawn, waits = np.random.default_rng(rank), (folder / "waits").exists()
    until = time.monotonic() + seconds

    def written(name: str, otherwise: float) -> float:
        try:
            return float((folder / name).read_text())
        except (OSError, ValueError):
            return otherwise

    def batches():
        while count > 1 or time.monotonic() < until:  # ranks that stop at different steps would wait for ever
            time.sleep(written(f"input-{rank}", INPUT_SECONDS))
            rows = drawn.normal(size=(int(written("rows", 32)), WIDTH)).astype(np.float32)
            yield jax.make_array_from_process_local_data(split, rows)

    with jaxobs.instrument() as observer:
        step = observer.watch(train_step_of(0.1))
        weights = [jnp.asarray(np.eye(WIDTH), jnp.float32) for _ in range(LAYERS)]
        while (address := observer.address) is None:  # the agent is still starting
            time.sleep(0.1)
        print(address, flush=True)
        for batch in observer.steps(batches(), examples=32):
            busy_until = time.perf_counter() + written(f"host-{rank}", 0.0)
            while time.perf_counter() < busy_until:
                pass
            stand_still(folder, rank)
            weights, loss = step(weights, batch)
            observer.record(loss=loss)
            if waits:
                loss.block_until_ready()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
