"""What jaxobs adds to a compile: `make benchmark NAME=compile_cost`.

In one process, the seconds that the probe `compile` spends on the compiling thread (its guard measures all of its hooks
from outside) over those from the beginning of the trace to the end of the backend's compile, for gradients of so many
layers; then the same of functions that are compiled again, for trees of one array to thousands, so that it is said why:
each is compiled for nine shapes, so that the last ones are compared with as many signatures as are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from benchmarks.costs.processes import Asked, answer
from benchmarks.paired import median, paired_ratio
from benchmarks.truths import Rows, interval

ALLOWED = 0.03
LONG_SECONDS = 0.1
LAYERS = (1, 4, 16)
ROUNDS = 9
LEAVES = (1, 100, 1000)
SHAPES, COMPARED, TREES = 9, 5, 3
"""Of the nine compiles of each tree the last five, which are compared with most signatures."""

Compile = tuple[float, float]
"""Its seconds, and those of jaxobs on its thread."""


def measure() -> Rows:
    """A row of each; of a compile of at least a tenth of a second 3 % may be jaxobs."""
    with Asked(__name__) as process:
        found: dict[str, list[Compile]] = process.hear()
    for name, compiles in found.items():
        took, spent = zip(*compiles, strict=True)
        between = (0.0, ALLOWED) if median(took).middle >= LONG_SECONDS else None
        share = interval("share", paired_ratio(spent, took), between=between)
        yield name, [interval("compile", median(took), "s"), interval("jaxobs", median(spent), "s"), share]


def compiled() -> dict[str, list[Compile]]:
    """Compiles of layers and of trees. Runs in a process of its own."""
    import jax  # noqa: F401  # where it is, probes are at once

    import jaxobs

    sources = jaxobs.instrument()._side.sources  # noqa: SLF001  # the guards count the seconds of probes
    (guard,) = [source.guard for source in sources if source.guard.source == "compile"]

    def timed(lower: Callable[[], Any]) -> Compile:
        before, began = guard.report().seconds, time.perf_counter()
        lower().compile()
        return time.perf_counter() - began, guard.report().seconds - before

    for layers in LAYERS:
        timed(_layers(layers, ROUNDS))  # the first is slower
    found = {
        f"{layers} layers": [timed(_layers(layers, number)) for number in range(ROUNDS)] for layers in LAYERS
    }
    trees = {f"{leaves} arrays, again": [_trees(timed, leaves) for _ in range(TREES)] for leaves in LEAVES}
    return found | {name: list(chain(*compiles)) for name, compiles in trees.items()}


def _layers(layers: int, number: int) -> Callable[[], Any]:
    """A new program of so many layers."""
    import jax
    import jax.numpy as jnp

    def stack(weights: Any, x: Any) -> Any:
        for layer in range(layers):
            x = jnp.tanh(x @ weights) + jnp.sin(x * (layer + 1 + number / 1000)) @ weights.T
        return x.sum()

    operands = (jnp.ones((64, 64)), jnp.ones((16, 64)))
    return lambda: jax.jit(jax.grad(stack)).lower(*operands)


def _trees(timed: Callable[[Callable[[], Any]], Compile], leaves: int) -> list[Compile]:
    import jax
    import jax.numpy as jnp

    function = jax.jit(lambda tree: [leaf * 2 for leaf in tree.values()])
    names = [f"layer_{number}" for number in range(leaves)]
    trees = [dict.fromkeys(names, jnp.ones(size)) for size in range(1, SHAPES + 1)]
    return [timed(partial(function.lower, tree)) for tree in trees][-COMPARED:]


if __name__ == "__main__":
    answer(compiled())
