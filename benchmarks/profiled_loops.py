"""The loops over which benchmarks of profiler windows run, from many small operations to few large ones."""

# ruff: noqa: SLF001  # it looks inside the probe, which tells nobody what its windows cost

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LOOPS = ("operations", "matmul", "scan", "sparse")


def loop(name: str) -> tuple[Callable[[Any], Any], Any]:
    """A jitted function and its first argument.

    `operations`: thirty small operations a step. `matmul`: one large product. `scan`: a loop on the device, each of
    whose operations is an event. `sparse`: as `matmul`, and the host sleeps in between.
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

    size = {"operations": (1000,), "scan": (1000,)}.get(name, (700, 700))
    function: Any = {"operations": operations, "scan": scan}.get(name, matmul)
    return jax.jit(function), jnp.ones(size) / 700


def profiler_of(obs: Any) -> tuple[Any, list[Any]]:
    """The profiler probe of an observer, and a list that its windows are put into as it tells them."""
    from jaxobs.model.events import ProfileWindow

    (probe,) = (found.plugin for found, _ in obs._side.plugins if found.name == "profiler")
    told: list[Any] = []
    emit = probe._job.emit

    def seen(event: Any) -> None:
        if isinstance(event, ProfileWindow):
            told.append(event)
        emit(event)

    probe._job.emit = seen
    return probe, told
