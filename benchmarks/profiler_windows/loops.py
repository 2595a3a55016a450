"""The loops over which benchmarks of profiler windows run, from many small operations to few large ones."""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody what its windows cost

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LOOPS = ("operations", "matmul", "scan", "sparse", "input", "tiny", "dense", "wide")


def loop(name: str) -> tuple[Callable[[Any], Any], Any]:
    """A jitted function and its first argument.

    `operations`: thirty small operations a step. `matmul`: one large product. `scan`: a loop on the device, each of
    whose operations is an event. `sparse`: as `matmul`, and the host sleeps in between. `input`: as `matmul`, and the
    host makes a batch in between. `tiny`: one operation of a microsecond a step. `dense`: 40 000 such in each step, in a
    loop on the device, 3 to 5 million a second. `wide`: as `dense`, eight at once, handed to all cores.
    """
    import jax
    import jax.numpy as jnp

    def operations(x: Any) -> Any:
        for _ in range(30):
            x = (jnp.tanh(x) * 1.001).at[0].add(1.0)
        return x

    def matmul(x: Any) -> Any:
        return jnp.tanh(x @ x)

    def scan(x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, y: jnp.sort(y) + 1.0, x)

    def tiny(x: Any) -> Any:
        return x + 1.0

    def dense(x: Any) -> Any:
        return jax.lax.fori_loop(0, 20_000, lambda _, y: jnp.sort(y) + 1.0, x)

    def wide(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2_000, lambda _, y: tuple(jnp.sort(one) + 1.0 for one in y), (x,) * 8)[0]

    functions: dict[str, Any] = {
        "operations": operations,
        "scan": scan,
        "tiny": tiny,
        "dense": dense,
        "wide": wide,
    }
    size = {"operations": (1000,), "scan": (1000,), "tiny": (4,), "dense": (4,), "wide": (4,)}.get(
        name, (700, 700)
    )
    return jax.jit(functions.get(name, matmul)), jnp.ones(size) / 700


def between_steps(name: str) -> Callable[[], object]:
    """What the host does between two steps of that loop."""
    if name == "sparse":
        return lambda: time.sleep(0.02)
    if name == "input":
        import numpy as np

        generator = np.random.default_rng(0)
        return lambda: generator.standard_normal(500_000, dtype=np.float32)  # 4 ms
    return lambda: None


def profiler_of(obs: Any) -> tuple[Any, list[Any]]:
    """The profiler probe of an observer, and a list that its windows are put into as it tells them."""
    from jaxobs.model.events import ProfileWindow

    (probe,) = (source.plugin for source in obs._side.sources if source.guard.source == "profiler")
    told: list[Any] = []
    emit = probe._job.emit

    def seen(event: Any) -> None:
        if isinstance(event, ProfileWindow):
            told.append(event)
        emit(event)

    probe._job.emit = seen
    return probe, told
