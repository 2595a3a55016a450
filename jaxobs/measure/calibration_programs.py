"""The programs that `jaxobs calibrate` times, each with the work one call does.

XLA must not drop the work: factors are arguments whose values it does not know, and each pass reads what the one before
wrote. Matrices are random: on zeros a GPU draws less power and clocks higher. Arrays are donated and updated in place:
on a CPU a fresh result of 64 MiB costs more page faults than arithmetic, and a cache line that is written without
having been read is read all the same ("write-allocate"), which STREAM does not count. With updates in place the bytes
counted are the bytes moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

Group = Literal["matrix", "vector", "transcendentals", "memory"]

_MEBIBYTE, _GIBIBYTE = 2**20, 2**30
_WORKING_SETS = (*(2**16 * 4**step for step in range(7)), 2**29)
"""Bytes, on a processor: from a core's own cache to a size of which at most an eighth stays in a cache of 64 MiB."""
_DTYPES = ("float32", "float64", "bfloat16", "float16")
_NARROW = ("float8_e4m3fn", "float8_e5m2")
"""Types that are timed only where the compiled product runs in them. `float8` peaks of datasheets hold for either 8-bit
float."""
_TILE = 512
_CHAINS = 8
"""Independent chains of multiply-adds: eight hide the latency of two units with four cycles each."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to time. `prepare` makes its data and returns a function that runs it once, to completion."""

    group: Group
    dtype: str
    size: int
    """Rows of the matrices, elements of the array, or bytes of the working set."""
    work: float
    """FLOP, results or bytes of one call."""
    prepare: Callable[[], Callable[[], None]]
    compiled: Callable[[], Any] | None = None
    """Gives the executable of a program that the compiler may run in another type; None if it never does."""


def programs(platform: str) -> list[Program]:
    """All programs for a backend: `cpu`, or any other, which is taken for an accelerator of 8 GiB or more."""
    return _processor_programs() if platform == "cpu" else _accelerator_programs()


def _processor_programs() -> list[Program]:
    found = [_matrix(dtype, size) for dtype in (*_DTYPES, *_NARROW) for size in (256, 512, 1024, 2048)]
    for dtype in ("float32", "float64"):
        found += [_vector(dtype, count, links=8, times=2**20 // count) for count in (2**16, 2**18)]
        found += [_transcendentals(dtype, count, links=1, times=2**22 // count) for count in (2**16, 2**18)]
    for size in _WORKING_SETS:
        found += [_copy(size, 64 * _MEBIBYTE), _triad(size, 64 * _MEBIBYTE)]
    return found


def _accelerator_programs() -> list[Program]:
    """Programs so large that launching does not count: 64 MiB with 66 FLOP a byte, sets of 8 MiB to 1 GiB."""
    found = [
        _matrix(dtype, size)
        for dtype in (*_DTYPES, *_NARROW, "tensorfloat32")
        for size in (2048, 4096, 8192, 16384)
    ]
    for dtype in ("float32", "float64"):
        found += [
            _vector(dtype, 2**24, links=32, times=40),
            _transcendentals(dtype, 2**24, links=16, times=40),
        ]
    for exponent in range(23, 31):
        found += [_copy(2**exponent, 16 * _GIBIBYTE), _triad(2**exponent, 16 * _GIBIBYTE)]
    return found


@cache
def _noise(dtype: str) -> Any:
    """A tile of random numbers, made once: drawing them on the device takes a compilation for each shape."""
    draw = np.random.default_rng(0)
    numbers = draw.standard_normal((_TILE, _TILE), np.float32)
    return numbers.astype(jnp.dtype(dtype))


def _matrix_of_noise(size: int, dtype: str, shift: int) -> jax.Array:
    repeats = -(-size // _TILE)
    return jnp.asarray(np.tile(np.roll(_noise(dtype), shift, axis=1), (repeats, repeats))[:size, :size])


def _in_place(
    body: Callable[..., jax.Array], times: int, data: Callable[[], tuple[jax.Array, ...]]
) -> Callable[[], Callable[[], None]]:
    """A `prepare` for `body` run `times` times in one executable, compiled once, with its first argument in place."""

    def repeated(state: jax.Array, *rest: jax.Array) -> jax.Array:
        result: jax.Array = jax.lax.fori_loop(0, times, lambda _, value: body(value, *rest), state)
        return result

    compiled = jax.jit(repeated, donate_argnums=0)

    def prepare() -> Callable[[], None]:
        state, *rest = data()
        held = [state]
        del state  # else the first call would find its buffer still in use, and not update it in place

        def run() -> None:
            held[0] = compiled(held[0], *rest)
            _block(held[0])

        return run

    return prepare


def _block(value: Any) -> None:
    jax.block_until_ready(value)  # type: ignore[no-untyped-call]


def _matrix(dtype: str, size: int) -> Program:
    """A square product: 2 n³ FLOP. On a GPU float32 keeps its precision, unlike `tensorfloat32`."""
    precision = "tensorfloat32" if dtype == "tensorfloat32" else "highest"
    stored = "float32" if dtype == "tensorfloat32" else dtype
    sums = jnp.float32 if dtype in _NARROW else None  # a result of eight bits would round
    product = jax.jit(partial(jnp.matmul, precision=precision, preferred_element_type=sums))

    def prepare() -> Callable[[], None]:
        left, right = _matrix_of_noise(size, stored, 0), _matrix_of_noise(size, stored, 1)
        return lambda: _block(product(left, right))

    def compiled() -> Any:
        side = jax.ShapeDtypeStruct((size, size), jnp.dtype(stored))  # type: ignore[no-untyped-call]
        return product.lower(side, side).compile()

    converted = jnp.dtype(stored).itemsize < 4
    return Program("matrix", dtype, size, 2.0 * size**3, prepare, compiled if converted else None)


def _vector(dtype: str, elements: int, links: int, times: int) -> Program:
    """Chains of multiply-adds on each element, and the sum of the chains."""

    def body(x: jax.Array, factor: jax.Array) -> jax.Array:
        chains = [x] + [x + chain / _CHAINS for chain in range(1, _CHAINS)]
        for _ in range(links):
            chains = [value * factor + 0.5 for value in chains]
        return sum(chains[1:], chains[0]) * factor

    # The factor keeps the values near 1 from pass to pass: no overflow, no slow denormal numbers.
    prepare = _in_place(body, times, lambda: (jnp.ones(elements, dtype), jnp.asarray(0.1, dtype)))
    flops = (_CHAINS - 1) + 2 * _CHAINS * links + (_CHAINS - 1) + 1
    return Program("vector", dtype, elements, float(flops * elements * times), prepare)


def _transcendentals(dtype: str, elements: int, links: int, times: int) -> Program:
    """Chains of `links` times `exp` on each element in each pass: x = exp(-x / 2) converges to 0.70 from anywhere."""

    def body(x: jax.Array, factor: jax.Array) -> jax.Array:
        for _ in range(links):
            x = jnp.exp(x * factor)
        return x

    prepare = _in_place(body, times, lambda: (jnp.ones(elements, dtype), jnp.asarray(-0.5, dtype)))
    return Program("transcendentals", dtype, elements, float(links * elements * times), prepare)


def _copy(size: int, bytes_a_call: int) -> Program:
    """`x *= s`, a copy onto itself, since XLA drops a plain one. It moves 2 N bytes; the working set is N."""
    times = max(2, bytes_a_call // (2 * size))
    prepare = _in_place(lambda x, s: x * s, times, lambda: (jnp.ones(size // 4, "float32"), jnp.float32(1)))
    return Program("memory", "float32", size, 2.0 * size * times, prepare)


def _triad(size: int, bytes_a_call: int) -> Program:
    """`x = x * s + y`, the triad of STREAM. It moves 3 N bytes; the working set is 2 N."""
    elements = size // 8
    times = max(2, bytes_a_call // (12 * elements))

    def data() -> tuple[jax.Array, ...]:
        return jnp.ones(elements, "float32"), jnp.float32(0.5), jnp.ones(elements, "float32")

    return Program(
        "memory", "float32", size, 12.0 * elements * times, _in_place(lambda x, s, y: x * s + y, times, data)
    )
