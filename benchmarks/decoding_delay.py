"""How late steps of a 1 ms loop are while the agent decodes a large module: `python benchmarks/decoding_delay.py`.

One observed loop runs in turns: a turn in which a module of 50 000 instructions is handed over, as the probe `compile`
hands over every new executable, and a turn in which nothing is. A step is late by what it takes longer than the median
step of its turn. Turns come in pairs, in changing order, since a busy machine makes steps late by itself; for the same
reason each figure is also given without the time that the loop's thread was ready and waited for a core (Linux tells it
in /proc/thread-self/schedstat): what is left are waits for the interpreter lock and the like, which decoding in the job's
own process would cause. The snapshot at the end says that each module was decoded.

Exit status 1 where the latest step of the turns with a module is more than 2 ms later, in the median of the pairs, than
that of the turns without. The step runs on one core, so that the agent has another, as on any host of an accelerator.
"""

from __future__ import annotations

import argparse
import functools
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
_ROW = "{:>9}  {:>12}  {:>9}  {:>13}  {:>18}  {:>20}"


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
    print(f"modules of {options.instructions} instructions, {len(modules[0]) / 1e6:.1f} MB")
    print(
        _ROW.format(
            "a module", "median step", "latest", "> 2 ms late", "latest, waits for", "> 2 ms late, without"
        )
    )
    print(_ROW.format("arrives", "ms", "by ms", "", "a core left out", "those waits"))
    differences: dict[str, list[float]] = {"all": [], "without waits": []}
    for pair, module in enumerate(modules):
        latest: dict[bool, tuple[float, float]] = {}
        for arrives in (True, False) if pair % 2 else (False, True):
            if arrives:
                emit(ExecutableCreated(1_000_000 + pair, "generated", now(), module, "", (), 1))
            latest[arrives] = _report(arrives, _turn(observer, step, options.seconds))
        for place, kept in enumerate(differences.values()):
            kept.append(latest[True][place] - latest[False][place])
    decoded = _decoded(observer)
    observer.shutdown()
    middle = {name: statistics.median(found) for name, found in differences.items()}
    print(f"with a module the latest step is {middle['all'] * 1e3:+.3f} ms later than without one in the median of "
          f"{len(modules)} pairs, {middle['without waits'] * 1e3:+.3f} ms without waits for a core; "
          f"{decoded} of {len(modules)} modules were decoded in the agent")  # fmt: skip
    return int(middle["without waits"] > ALLOWED_SECONDS or decoded < len(modules))


def _report(arrives: bool, steps: list[tuple[float, float]]) -> tuple[float, float]:
    """Print one turn; the seconds by which its latest step was late, with and without waits for a core."""
    middle = statistics.median(taken for taken, _ in steps)
    late = [taken - middle for taken, _ in steps]
    without = [taken - waited - middle for taken, waited in steps]
    counts = [
        f"{sum(each > ALLOWED_SECONDS for each in lateness)} of {len(steps)}" for lateness in (late, without)
    ]
    print(_ROW.format("yes" if arrives else "no", f"{middle * 1e3:.3f}", f"{max(late) * 1e3:.3f}", counts[0],
                      f"{max(without) * 1e3:.3f}", counts[1]), flush=True)  # fmt: skip
    return max(late), max(without)


def _decoded(observer: Any) -> int:
    """Modules whose cost the agent knows."""
    executables = observer.snapshot(timeout=30.0).to_dict()["executables"] or []
    return sum(entry["function"] == "generated" and entry["cost"] is not None for entry in executables)


def _step(observer: Any) -> Callable[[], None]:
    """One run of about 1 ms to completion, of a watched function."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_cpu_enable_async_dispatch", False)  # on this thread, whose waits are known
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


def _turn(observer: Any, step: Callable[[], None], seconds: float) -> list[tuple[float, float]]:
    """Of each step its seconds, and those of them in which this thread waited for a core."""
    steps = []
    started = before = time.perf_counter()
    waited_before = _waited()
    while before - started < seconds:
        with observer.step():
            step()
        after, waited = time.perf_counter(), _waited()
        steps.append((after - before, waited - waited_before))
        before, waited_before = after, waited
    return steps


@functools.cache
def _schedstat() -> int | None:
    try:
        return os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return None


def _waited() -> float:
    """Seconds that this thread has been ready to run without a core; 0 where the system does not tell."""
    file = _schedstat()
    return 0.0 if file is None else int(os.pread(file, 64, 0).split()[1]) / 1e9


if __name__ == "__main__":
    sys.exit(main())
