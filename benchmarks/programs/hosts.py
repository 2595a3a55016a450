"""What the host does, and on which thread."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.paired import seconds_of
from benchmarks.programs.truth import Clock, asleep, main, observer, until, work_in_python

PAUSE = 0.02


@jax.jit
def train_step(weights: Any) -> Any:
    """A fraction of a millisecond."""
    return weights - 0.1 * jnp.tanh(weights @ weights)


def sleeping() -> dict[str, Any]:
    """The host sleeps in each step, and the device is idle for nearly all of the time."""
    return _host(time.sleep)


def helper() -> dict[str, Any]:
    """The host computes in each step; once, a tiny jitted function is called beside the one of the loop."""
    return _host(work_in_python, helper_at=200)


def _host(pause: Any, helper_at: int | None = None) -> dict[str, Any]:
    obs = observer()
    step, tiny = obs.watch(train_step), jax.jit(lambda x: x.sum() * 2)
    weights = step(jnp.eye(64) * 0.01).block_until_ready()
    clock = Clock()
    for number in clock.over(obs.steps(until(9.0))):
        weights = step(weights)
        pause(PAUSE)
        if number == helper_at:
            float(tiny(weights))
    return {"label": "host", "step_seconds": clock.step_seconds}


def threads() -> dict[str, Any]:
    """A worker thread trains, and sleeps in `fetch()` for its input; the main thread waits for the worker."""
    found: list[float] = []
    worker = threading.Thread(target=_train, args=(found,))
    worker.start()
    _wait_for(worker)
    return {"label": "input", "step_seconds": found[0]}


def _wait_for(worker: threading.Thread) -> None:
    while worker.is_alive():
        work_in_python(0.001)
        time.sleep(0.01)


def _train(found: list[float]) -> None:
    weights = train_step(jnp.eye(64) * 0.01).block_until_ready()
    clock = Clock()
    for _ in clock.over(until(14.0)):
        weights = train_step(weights + fetch()).block_until_ready()
    found.append(clock.step_seconds)


def fetch() -> float:
    """The next batch, for which it waits."""
    time.sleep(PAUSE)
    return 0.0


def native(seconds: float) -> None:
    """Products of some milliseconds' tenths, each without the interpreter lock."""
    matrix = np.ones((300, 300))
    for _ in until(seconds):
        np.matmul(matrix, matrix)


def parts(seconds: str) -> dict[str, Any]:
    """Known times in three lines, over and over: the seconds of each, and of a core what the sampling thread took."""
    from jaxobs.model.clock import thread_time_of
    from jaxobs.plugin.threads import living

    observer()
    jax.jit(lambda x: x + 1)(1.0)  # a job without a backend is not observed
    time.sleep(2.0)
    (sampler,) = [thread.native for thread in living() if thread.name == "jaxobs-host-lines"]
    lengths = {work_in_python: 0.015, asleep: 0.02, native: 0.01}
    used, spent = thread_time_of(sampler), dict.fromkeys((part.__name__ for part in lengths), 0.0)
    for _ in until(float(seconds)):
        for part, length in lengths.items():
            spent[part.__name__] += seconds_of(partial(part, length))
    return {"parts": spent, "sampler": (thread_time_of(sampler) - used) / float(seconds)}


if __name__ == "__main__":
    main(sleeping, helper, threads, parts)
