"""Whether `jaxobs.explain_compile()` tells the truth of programs that are slow to compile, by clocks of their own.

    python -m benchmarks.compiles_explained [--only capturing]

Printed are the seconds of each phase beside those that JAX tells, the Python that ran while tracing, by line, beside its
own clock, and which unrolled loop and captured constants were found. Seconds may be off by 10 %. Exit status 1 where
something is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs
from benchmarks.truths import Figure, Table, chosen, options_of
from jaxobs.jax_compat.compiling import PHASES

TOLERANCE = 0.1
MIN_SECONDS = 0.01
"""Seconds by which a short phase may be off: what JAX does around it is part of it here."""

LAYERS, FEWER, MEGABYTES = 300, 20, 200

clocks: dict[str, float] = {}


def busy(seconds: float) -> None:
    """Python that never lets go of the interpreter lock by itself."""
    began = time.perf_counter()
    while time.perf_counter() < began + seconds:
        pass
    clocks["busy"] = clocks.get("busy", 0.0) + time.perf_counter() - began


def sleeping(seconds: float) -> None:
    """A call that blocks."""
    began = time.perf_counter()
    time.sleep(seconds)
    clocks["sleeping"] = clocks.get("sleeping", 0.0) + time.perf_counter() - began


def unrolled(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Hundreds of layers in a Python loop."""
    for index in range(LAYERS):
        x = jnp.tanh(x @ weights[index])
    return x


def python_heavy(x: jax.Array) -> jax.Array:
    """A trace that takes four seconds of Python."""
    for _ in range(FEWER):
        busy(0.15)
        sleeping(0.05)
        x = jnp.sin(x)
    return x


TABLE = np.random.default_rng(0).random((1024, MEGABYTES * 256), dtype=np.float32)


def capturing(x: jax.Array) -> jax.Array:
    """A product with an array from outside."""
    return x @ TABLE


TURNS = {unrolled: LAYERS, python_heavy: FEWER, capturing: 0}


def figures(function: Callable[..., Any], *arguments: Any) -> Iterator[Figure]:
    """What is told of a compile, beside the truth."""
    jax_says: dict[str, float] = {}

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        if event in PHASES:
            jax_says[PHASES[event]] = duration_secs  # the outermost trace ends last

    jax.monitoring.register_event_duration_secs_listener(heard)
    clocks.clear()
    found = jaxobs.explain_compile(function, *arguments)
    print(found, file=sys.stderr)
    for phase, truth in jax_says.items():
        yield Figure(
            phase, found.seconds[phase].value, truth, absolute=max(TOLERANCE * truth, MIN_SECONDS), unit="s"
        )
    for name, spent in clocks.items():
        lines = found.trace_lines.value or {}
        seen = sum(seconds for line, seconds in lines.items() if line.endswith(f" {name}"))
        yield Figure(f"tracing in {name}", seen, spent, relative=TOLERANCE, unit="s")
    loop = found.contents.unrolled.value
    yield Figure("turns of a loop", loop.times if loop else 0, TURNS[function])
    size = sum(constant.bytes for constant in found.contents.constants)
    yield Figure("constants", size, TABLE.nbytes if function is capturing else 0, unit="B")


def main() -> int:
    """Print the table; the exit status."""
    options = options_of(__doc__).parse_args()
    table = Table()
    weights = jax.ShapeDtypeStruct((LAYERS, 64, 64), jnp.float32)
    cases: dict[Callable[..., Any], tuple[Any, ...]] = {
        unrolled: (weights, jax.ShapeDtypeStruct((4, 64), jnp.float32)),
        python_heavy: (jnp.ones(8),),
        capturing: (jnp.ones((4, 1024)),),
    }
    for function in chosen(options.only, ((case.__name__, case) for case in cases)):
        table.add(function.__name__, figures(function, *cases[function]))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
