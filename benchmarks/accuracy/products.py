"""Matrix products in all element types, and how compilers rewrite them."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones

N = 256
PRODUCT = 2 * N**3


def _einsum(
    name: str, subscripts: str, left: tuple[int, ...], right: tuple[int, ...], multiply_adds: int,
    dtype: Any = jnp.float32, **rest: Any,
) -> Program:  # fmt: skip
    return Program(
        f"einsum {name}",
        lambda a, b: jnp.einsum(subscripts, a, b),
        (ones(*left, dtype=dtype), ones(*right, dtype=dtype)),
        matrix_flops=2 * multiply_adds,
        formula=subscripts,
        **rest,
    )


PROGRAMS = (
    Program("product", jnp.matmul, (ones(N, N), ones(N, N)), PRODUCT, 0, 3 * N * N * 4),
    Program("rectangular product", jnp.matmul, (ones(64, 512), ones(512, 96)), 2 * 64 * 512 * 96, 0,
            4 * (64 * 512 + 512 * 96 + 64 * 96)),
    Program("matrix times vector", jnp.matmul, (ones(512, 256), ones(256)), 2 * 512 * 256, 0,
            4 * (512 * 256 + 256 + 512)),
    Program("product with transposes", lambda a, b: a.T @ b.T, (ones(256, 64), ones(96, 256)), 2 * 64 * 256 * 96),
    _einsum("batched", "bij,bjk->bik", (8, 64, 32), (8, 32, 48), 8 * 64 * 32 * 48),
    _einsum("two contractions", "iab,abj->ij", (64, 8, 16), (8, 16, 32), 64 * 8 * 16 * 32),
    _einsum("heads", "btd,dhk->bthk", (4, 32, 64), (64, 4, 16), 4 * 32 * 64 * 4 * 16),
    Program("three matrices", lambda a, b, c: a @ b @ c, (ones(32, 64), ones(64, 96), ones(96, 16)),
            2 * 32 * 64 * 96 + 2 * 32 * 96 * 16),
    _einsum("rows with rows", "bi,bi->b", (64, 128), (64, 128), 64 * 128),
    _einsum("rows with rows in bfloat16", "bi,bi->b", (64, 128), (64, 128), 64 * 128, dtype=jnp.bfloat16),
    Program("complex rows with rows", lambda a, b: jnp.einsum("bi,bi->b", a, b),
            (ones(64, 128, dtype=jnp.complex64),) * 2, 8 * 64 * 128, formula="8 m k"),
    Program("vdot", jnp.vdot, (ones(1000), ones(1000)), 2 * 1000, 0),
    Program("vector times vector", jnp.dot, (ones(10**6), ones(10**6)), 2 * 10**6, 0, 2 * 4 * 10**6 + 4),
    Program("squared norm", lambda x: jnp.vdot(x, x), (ones(1000),), 2 * 1000, 0),
    Program("bilinear form", lambda a, w, b: jnp.einsum("bi,ij,bj->b", a, w, b),
            (ones(64, 32), ones(32, 16), ones(64, 16)), 2 * 64 * 32 * 16 + 2 * 64 * 16, 0),
    Program("complex product", jnp.matmul, (ones(N, N, dtype=jnp.complex64),) * 2, 4 * PRODUCT, 0, 3 * N * N * 8,
            formula="8 m n k"),
    *(Program(f"product of {dtype}", lambda a, b: lax.dot(a, b, preferred_element_type=jnp.float32),
              (ones(N, N, dtype=dtype),) * 2, PRODUCT)
      for dtype in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")),
    Program("int4 weights, bfloat16 activations", lambda x, w: x @ w.astype(jnp.bfloat16),
            (ones(64, N, dtype=jnp.bfloat16), ones(N, N, dtype=jnp.int4)), 2 * 64 * N * N),
    Program("int8 product: no FLOPs", lax.dot, (ones(N, N, dtype=jnp.int8),) * 2, unmodelled=True),
    Program("grouped product of four experts", lax.ragged_dot,
            (ones(64, 32), ones(4, 32, 16), jnp.full(4, 16, jnp.int32)), 4 * 2 * 64 * 32 * 16,
            formula="XLA's CPU compiler masks the rows and runs all four experts on all of them"),
)  # fmt: skip
