"""How a job is started, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.programs.truth import main, tell

RANK = """
import time, jax, jax.numpy as jnp
grow = jax.jit(lambda x: jnp.tanh(x @ x))
x = jnp.eye(384) * 0.9
end = time.perf_counter() + 4
while time.perf_counter() < end:
    x = grow(x)
    x.block_until_ready()
"""


def launcher() -> dict[str, Any]:
    """A launcher that uses no JAX itself and starts two ranks that do, as many schedulers' scripts do."""
    ranks = [subprocess.Popen([sys.executable, "-c", RANK]) for _ in range(2)]
    statuses = [rank.wait() for rank in ranks]
    return {"ranks": len(ranks), "statuses": statuses}


def killed() -> dict[str, Any]:
    """Trains until SIGTERM ends it, as Slurm and Kubernetes do, after a while: it tells its truth as it goes."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(x: Any) -> Any:
        return jnp.tanh(x @ x)

    x = train_step(jnp.eye(512) * 0.9).block_until_ready()
    threading.Timer(20.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    began, steps = time.perf_counter(), 0
    while True:
        x = train_step(x).block_until_ready()
        steps += 1
        if steps % 50 == 0:
            tell({"steps": steps, "step_seconds": (time.perf_counter() - began) / steps})


if __name__ == "__main__":
    main(launcher, killed)
