"""Whether `jaxobs.explain_compile()` tells the truth of programs that are slow to compile, by clocks of their own.

    python -m benchmarks.compiles_explained [--only capturing]

Printed are the seconds of each phase beside this program's own clock around JAX's methods in the very same compile; the
Python that ran while tracing, by line, beside its own clock; which unrolled loop, captured constants and equations were
found; and what is told of the persistent cache. Seconds may be off by 10 %, or 10 ms. Exit status 1 where something is
wrong.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import jaxobs
from benchmarks.paired import seconds_of
from benchmarks.programs.truth import asleep, work_in_python
from benchmarks.truths import Figure, Table, chosen, options_of

TOLERANCE = 0.1
MIN_SECONDS = 0.01
"""Seconds by which a short phase may be off: what JAX does around it is part of it here."""

LAYERS, FEWER, MEGABYTES = 300, 20, 200

PARTS = {work_in_python: 0.15, asleep: 0.05}
"""What a slow trace does at each of its turns, with the seconds that it takes."""

clocks: dict[str, float] = defaultdict(float)
"""Seconds in each of these."""


def unrolled(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Hundreds of layers in a Python loop."""
    for index in range(LAYERS):
        x = jnp.tanh(x @ weights[index])
    return x


def python_heavy(x: jax.Array) -> jax.Array:
    """A trace that takes four seconds of Python."""
    for _ in range(FEWER):
        for part, seconds in PARTS.items():
            clocks[part.__name__] += seconds_of(partial(part, seconds))
        x = jnp.sin(x)
    return x


TABLE = np.random.default_rng(0).random((1024, MEGABYTES * 256), dtype=np.float32)


def capturing(x: jax.Array) -> jax.Array:
    """A product with an array from outside."""
    return x @ TABLE


DIFFERENT = (
    jnp.sin, jnp.cos, jnp.tanh, jnp.exp, jnp.log1p, jnp.arctan, jnp.sinh, jnp.expm1, jax.nn.relu, jnp.square,
)  # fmt: skip
EQUATIONS = 3_000


def many_equations(x: jax.Array) -> jax.Array:
    """Thousands of equations, of which no loop is the reason: each part of ten has another order."""
    for index in range(EQUATIONS // 10):
        for turn in range(10):
            x = DIFFERENT[(turn * (index % 7 + 1) + index) % 10](x) * 0.5
    return x


def not_cached(x: jax.Array) -> jax.Array:
    """A program that JAX's persistent cache does not have the first time, and has the second."""
    for _ in range(40):
        x = jnp.linalg.inv(jnp.tanh(x @ x.T)) + jnp.eye(len(x))
    return x


TURNS = {unrolled: LAYERS, python_heavy: FEWER, capturing: 0}


@contextmanager
def own_clock() -> Iterator[dict[str, float]]:
    """Seconds of each phase of the compile that is made within, by this program's clock around JAX's public methods."""
    seconds: dict[str, float] = {}

    def timed(phase: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            before = time.perf_counter()
            seconds.setdefault("trace", before - began)  # what came before lowering
            try:
                return method(*args, **kwargs)
            finally:
                seconds[phase] = time.perf_counter() - before

        return called

    with (
        mock.patch.object(jax.stages.Traced, "lower", timed("lower", jax.stages.Traced.lower)),
        mock.patch.object(jax.stages.Lowered, "compile", timed("backend", jax.stages.Lowered.compile)),
    ):
        began = time.perf_counter()
        yield seconds


def figures(function: Callable[..., Any], *arguments: Any) -> Iterator[Figure]:
    """What is told of a compile, beside the truth."""
    clocks.clear()
    with own_clock() as by_phase:
        found = jaxobs.explain_compile(function, *arguments)
    print(found, file=sys.stderr)
    for phase, truth in by_phase.items():
        allowed = max(TOLERANCE * truth, MIN_SECONDS)
        yield Figure(phase, found.seconds[phase].value, truth, absolute=allowed, unit="s")
    for name, spent in clocks.items():
        lines = found.trace_lines.value or {}
        seen = sum(seconds for line, seconds in lines.items() if line.endswith(f" {name}"))
        yield Figure(f"tracing in {name}", seen, spent, relative=TOLERANCE, unit="s")
    loop = found.contents.unrolled.value
    if function in TURNS:
        yield Figure("turns of a loop", loop.times if loop else 0, TURNS[function])
    else:
        yield Figure("equations", found.equations, between=(2 * EQUATIONS, 3 * EQUATIONS))
    size = sum(constant.bytes for constant in found.contents.constants)
    yield Figure("constants", size, TABLE.nbytes if function is capturing else 0, unit="B")


def cached(function: Callable[..., Any], *arguments: Any) -> Iterator[Figure]:
    """What is told of the persistent cache: a miss, then a hit, which reads and compiles nothing."""
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        for truth in ("miss", "hit"):
            jax.clear_caches()
            with own_clock() as by_phase:
                found = jaxobs.explain_compile(function, *arguments)
            print(found, file=sys.stderr)
            yield Figure("persistent cache", found.persistent_cache.value, truth)
            told = sum(found.seconds[phase].value or 0.0 for phase in ("backend", "cache_read"))
            yield Figure(f"compile, {truth}", told, by_phase["backend"], relative=TOLERANCE, unit="s")
        jax.config.update("jax_compilation_cache_dir", None)


def main() -> int:
    """Print the table; the exit status."""
    options = options_of(__doc__).parse_args()
    table = Table()
    jaxobs.explain_compile(jnp.sin, 1.0)  # what it imports is no part of a trace
    weights = jax.ShapeDtypeStruct((LAYERS, 64, 64), jnp.float32)
    cases: dict[Callable[..., Any], tuple[Any, ...]] = {
        unrolled: (weights, jax.ShapeDtypeStruct((4, 64), jnp.float32)),
        python_heavy: (jnp.ones(8),),
        capturing: (jnp.ones((4, 1024)),),
        many_equations: (jnp.ones(64),),
        not_cached: (jnp.ones((32, 32)),),
    }
    for function in chosen(options.only, ((case.__name__, case) for case in cases)):
        told = cached if function is not_cached else figures
        table.add(function.__name__, told(function, *cases[function]))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
