"""How late steps of a 1 ms loop are while the agent decodes a large module: `python benchmarks/decoding_delay.py`.

One observed loop runs in turns: a turn in which a module of 50 000 instructions is handed over, as the probe `compile`
hands over every new executable, and a turn in which nothing is. A step is late by what it takes longer than the median
step of its turn. The turns come in pairs, in changing order, since the machine makes steps late by itself; the agent's
snapshot at the end says that each module was decoded. Exit status 1 where the latest step of the turns with a module is
more than 2 ms later, in the median of the pairs, than that of the turns without.

The step's product runs on one core, so that the agent has another, as on any host that feeds an accelerator.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from decoding import generated_module

import jaxobs
from jaxobs.model.clock import now
from jaxobs.model.events import ExecutableCreated

ALLOWED_SECONDS = 0.002
STEP_SECONDS = 0.001


def main() -> int:
    """Print a line for each pair, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of one turn; a module is decoded within one"
    )
    options = parser.parse_args()
    modules = [generated_module(options.instructions + 12 * pair) for pair in range(options.pairs)]
    observer = jaxobs.instrument(prometheus=False)
    step = _step(observer)
    emit = observer._side.ring.emit  # noqa: SLF001 what the probes are given
    print(f"{options.instructions} instructions, {len(modules[0]) / 1e6:.1f} MB; step in the median, the latest step, and "
          "how many were more than 2 ms late")  # fmt: skip
    differences, late = [], {True: 0, False: 0}
    for pair, module in enumerate(modules):
        latest = {}
        for arrives in (True, False) if pair % 2 else (False, True):
            if arrives:
                emit(ExecutableCreated(1_000_000 + pair, "generated", now(), module, "", (), 1))
            durations = _turn(observer, step, options.seconds)
            middle = statistics.median(durations)
            latest[arrives] = max(durations) - middle
            late[arrives] += sum(taken - middle > ALLOWED_SECONDS for taken in durations)
            print(f"{'with' if arrives else 'without':>8} {middle * 1e3:7.3f} ms  {latest[arrives] * 1e3:7.3f} ms  "
                  f"{sum(taken - middle > ALLOWED_SECONDS for taken in durations)} of {len(durations)}")  # fmt: skip
        differences.append(latest[True] - latest[False])
    snapshot = observer.snapshot()
    observer.shutdown()
    decoded = [entry for entry in snapshot.to_dict()["executables"] if entry["function"] == "generated"]
    costs = [entry for entry in decoded if entry["cost"] is not None]
    middle = statistics.median(differences)
    print(f"the latest step is {middle * 1e3:+.3f} ms later with a module than without, in the median of "
          f"{len(differences)} pairs; steps more than 2 ms late: {late[True]} with, {late[False]} without; "
          f"{len(costs)} of {len(modules)} modules decoded in the agent")  # fmt: skip
    return int(middle > ALLOWED_SECONDS or len(costs) < len(modules))


def _step(observer: Any) -> Callable[[], None]:
    """One run of about 1 ms to completion, of a watched function."""
    import jax
    import jax.numpy as jnp

    weights = jnp.ones((256, 256)) / 256

    def made(turns: int) -> Any:
        return jax.jit(lambda x: jax.lax.fori_loop(0, turns, lambda _, y: y @ x, x))

    def timed(function: Any) -> float:
        function(weights).block_until_ready()
        started = time.perf_counter()
        for _ in range(20):
            function(weights).block_until_ready()
        return (time.perf_counter() - started) / 20

    turns = max(1, round(STEP_SECONDS / (timed(made(20)) / 20)))
    watched = observer.watch(made(turns))
    watched(weights).block_until_ready()
    return lambda: watched(weights).block_until_ready()


def _turn(observer: Any, step: Callable[[], None], seconds: float) -> list[float]:
    durations = []
    started = before = time.perf_counter()
    while before - started < seconds:
        with observer.step():
            step()
        after = time.perf_counter()
        durations.append(after - before)
        before = after
    return durations


if __name__ == "__main__":
    sys.exit(main())
