"""`jaxobs.roofline` of products, a copy and a softmax: its time against the wall clock, its cost against formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.gpu_check.figures import Findings
from benchmarks.gpu_check.rooflines import Program, judge


class Sizes(NamedTuple):
    """Rows of the matrices, elements of the copy, rows and columns of the softmax."""

    side: int
    elements: int
    rows: int
    columns: int


GPU = Sizes(8192, 2**28, 32768, 8192)
"""A copy of 1 GiB and a softmax of as much, many times the largest cache (H200: 60 MB of L2)."""
SMALL = Sizes(256, 2**18, 256, 256)


def check(told: Findings) -> None:
    """Each program in turn; one that cannot run here costs the others nothing."""
    sizes = GPU if told.on_gpu else SMALL
    for program in _programs(told, sizes):
        judge(told, program)


def _programs(told: Findings, sizes: Sizes) -> list[Program]:
    import jax
    import jax.numpy as jnp

    side = sizes.side
    flops = 2.0 * side**3
    highest = jax.lax.Precision.HIGHEST
    found = [
        Program(
            "bfloat16 product", lambda x, y: x @ y, _matrices("bfloat16", side), flops,
            executed="bfloat16" if told.on_gpu else None,  # a CPU may widen it
        ),
        # JAX's default precision on GPUs since Ampere is TensorFloat-32 (docs.jax.dev, "Matmul precision").
        Program(
            "float32 product, default precision", jnp.matmul, _matrices("float32", side), flops,
            executed="tensorfloat32" if told.on_gpu else "float32",
        ),
        Program(
            "float32 product, highest precision", lambda x, y: jnp.matmul(x, y, precision=highest),
            _matrices("float32", side), flops, executed="float32",
        ),
        Program("copy", jnp.copy, _vector(sizes.elements), 0.0, bytes=8.0 * sizes.elements, label="memory"),
        # One pass where XLA fuses it, else up to three; more would be wrong.
        Program(
            "softmax", lambda x: jax.nn.softmax(x, axis=-1), _softmax(sizes), 0.0,
            bytes_between=(8.0 * sizes.rows * sizes.columns, 24.0 * sizes.rows * sizes.columns),
        ),
    ]  # fmt: skip
    if told.on_gpu:
        # cuBLASLt takes 8-bit floats from compute capability 8.9 on, results in bfloat16, float16 or float32 (cuBLAS
        # documentation, cublasLtMatmul, table of 8-bit types).
        narrow: Callable[..., Any] = lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.bfloat16)  # noqa: E731
        eight = Program(
            "float8 product", narrow, _matrices("float8_e4m3fn", side), flops, executed="float8_e4m3fn",
            slack=0.1,  # one side is transposed for cuBLASLt: 0.13 GB, a twentieth of the product's time
        )  # fmt: skip
        found.insert(1, eight)
    else:
        told.unmeasured("float8 product", "a CPU widens 8-bit floats")
    return found


def _matrices(dtype: str, side: int) -> Callable[[], tuple[Any, ...]]:
    """Random ones: on zeros a GPU draws less power and clocks higher."""

    def make() -> tuple[Any, ...]:
        import jax

        keys = jax.random.split(jax.random.key(0))
        return tuple(jax.random.normal(key, (side, side), "float32").astype(dtype) for key in keys)

    return make


def _vector(elements: int) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        import jax

        return (jax.random.normal(jax.random.key(0), (elements,), "float32"),)

    return make


def _softmax(sizes: Sizes) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        import jax

        return (jax.random.normal(jax.random.key(0), (sizes.rows, sizes.columns), "float32"),)

    return make
