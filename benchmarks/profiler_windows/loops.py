"""The loops over which profiler windows are studied, and a run of one of them. It tells steps and windows as JSON.

python loops.py matmul 110 0
"""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody when its windows are made

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from benchmarks.untrue.programs.truth import tell

LOOPS = ("matmul", "operations", "input", "dense")
SIZES = {"operations": (1000,), "dense": (4,)}

NOTED = 0.001
"""Seconds between two notes of how many steps had ended; steps that are shorter share one."""
QUIET = 4.0
"""Seconds at the end in which no window is asked for: the agent reads the last one, and the usual pace is seen."""


def loop(name: str) -> tuple[Callable[[Any], Any], Any]:
    """A jitted function and its first argument.

    `operations`: thirty small operations a step. `matmul`: one large product. `input`: as `matmul`, and the host makes a
    batch in between. `dense`: 40 000 operations of a microsecond in each step, in a loop on the device, 3 to 5 million
    a second.
    """
    import jax
    import jax.numpy as jnp

    def operations(x: Any) -> Any:
        for _ in range(30):
            x = (jnp.tanh(x) * 1.001).at[0].add(1.0)
        return x

    def matmul(x: Any) -> Any:
        return jnp.tanh(x @ x)

    def dense(x: Any) -> Any:
        return jax.lax.fori_loop(0, 20_000, lambda _, y: jnp.sort(y) + 1.0, x)

    functions: dict[str, Any] = {"operations": operations, "dense": dense}
    return jax.jit(functions.get(name, matmul)), jnp.ones(SIZES.get(name, (700, 700))) / 700


def between_steps(name: str) -> Callable[[], object]:
    """What the host does between two steps of that loop."""
    if name == "input":
        import numpy as np

        generator = np.random.default_rng(0)
        return lambda: generator.standard_normal(500_000, dtype=np.float32)  # 4 ms
    return lambda: None


def profiler_of(obs: Any) -> tuple[Any, list[Any]]:
    """The profiler probe of an observer, and a list that its windows are put into as it tells them."""
    from jaxobs.model.events import ProfileWindow

    probe: Any
    (probe,) = (source.plugin for source in obs._side.sources if source.guard.source == "profiler")
    told, emit = [], probe._job.emit

    def seen(event: Any) -> None:
        if isinstance(event, ProfileWindow):
            told.append(event)
        emit(event)

    probe._job.emit = seen
    return probe, told


def train(name: str, seconds: float, every: float) -> dict[str, Any]:
    """Run a loop for so long. `every`: seconds between windows, 0 for those that the budget allows.

    Returns when how many steps had ended, when each window began and was handed over, and what it was charged.
    """
    import jaxobs

    times: list[float] = []
    done: list[int] = []
    spans: list[tuple[float, float, float, float]] = []
    with jaxobs.instrument(prometheus=False) as obs:
        function, x = loop(name)
        step, between = obs.watch(function), between_steps(name)
        step(x).block_until_ready()
        probe, told = profiler_of(obs)
        windows = probe._windows
        scheduled = windows.scheduled

        def timed() -> None:
            began = time.monotonic()
            scheduled()
            ended = time.monotonic()
            spans.append((began, ended, told[-1].cost / 1e9, (told[-1].end - told[-1].start) / 1e9))

        windows.scheduled = timed
        until = time.monotonic() + seconds
        if every:
            windows.due = lambda progress: float("inf")

            def make() -> None:
                time.sleep(6.0)  # as a loop is steady
                while time.monotonic() + QUIET < until:
                    probe._give(timed)
                    time.sleep(every)

            threading.Thread(target=make, daemon=True).start()
        noted = 0.0
        turns = obs.steps(iter(lambda: time.monotonic() < until, False))
        for steps, _ in enumerate(turns, 1):
            step(x).block_until_ready()
            between()
            at = time.monotonic()
            if at - noted >= NOTED:
                times.append(at)
                done.append(steps)
                noted = at
        read = sum(window.outcome in ("read", "cut") for window in told)
    return {"times": times, "steps": done, "spans": spans, "read": read}


if __name__ == "__main__":
    tell(train(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
