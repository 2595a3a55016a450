"""How many HLO instructions a second `module_cost` reads, decoding included, on one core: `make benchmark NAME=decoding`.

The module is compiled for it: a transformer's training step, its layers unrolled.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.paired import median, seconds_of
from benchmarks.truths import Figure, Rows, interval

LAYERS = (4, 64)
ROUNDS = 5


def compiled_module(layers: int) -> bytes:
    """The serialized module of a training step with so many layers."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[Any], x: Any) -> Any:
        for up, down in weights:
            scores = jax.nn.softmax(x @ x.T)
            x = x + jax.nn.gelu(scores @ x @ up) @ down
        return jnp.mean(x**2)

    def step(weights: list[Any], x: Any) -> Any:
        return jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, jax.grad(loss)(weights, x))

    weights = [(jnp.ones((32, 64)), jnp.ones((64, 32)))] * layers
    executable: Any = jax.jit(step).lower(weights, jnp.ones((16, 32))).compile().runtime_executable()
    return bytes(executable.hlo_modules()[0].as_serialized_hlo_module_proto())


def measure() -> Rows:
    """A small module, and a large one."""
    from jaxobs.cost_model import module_cost
    from jaxobs.proto.messages import ModuleMessage

    for layers in LAYERS:
        serialized = compiled_module(layers)
        count = sum(len(part.instructions) for part in ModuleMessage.FromString(serialized).computations)
        times = [seconds_of(partial(module_cost, serialized)) for _ in range(ROUNDS)]
        yield (
            f"{layers} layers",
            [
                Figure("instructions", count),
                Figure("module", len(serialized), unit="B"),
                interval("read in", median(times), "s"),
                interval("instructions a second", median([count / seconds for seconds in times])),
            ],
        )
