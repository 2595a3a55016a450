"""Programs bound by memory: bytes that must move, and vector FLOPs."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones

M = 1024
X = ones(M, M)
BYTES = 4 * M * M
TABLE, ROWS, ROW = ones(100_000, 128), jnp.arange(16), 128 * 4


def _adam(p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    return p - 0.001 * m * lax.rsqrt(v + 1e-8), m, v


PROGRAMS = (
    Program("addition", jnp.add, (X, X), 0, M * M, 3 * BYTES),
    Program("multiply-add", lambda a, b, c: a * b + c, (X, X, X), 0, 2 * M * M, 4 * BYTES),
    Program("a value used three times", lambda a: a * a + jnp.sin(a), (X,), 0, 2 * M * M, 2 * BYTES),
    Program("transpose", jnp.transpose, (X,), 0, 0, 2 * BYTES),
    Program("sum of all", jnp.sum, (X,), 0, M * M - 1, BYTES),
    Program("sum of rows", lambda a: jnp.sum(a, 1), (X,), 0, M * (M - 1), BYTES + 4 * M),
    Program("largest of all: no FLOPs", jnp.max, (X,), 0, 0, BYTES),
    Program("ReLU: no FLOPs", jax.nn.relu, (X,), 0, 0, 2 * BYTES),
    Program("widening: no FLOPs", lambda a: a.astype(jnp.float32), (X.astype(jnp.bfloat16),), 0, 0, 1.5 * BYTES),
    Program("sort: no FLOPs", lambda a: lax.sort(a, is_stable=False), (X,), 0, 0, 2 * BYTES),
    Program("best 8 of each row", lambda a: lax.top_k(a, 8), (X,), 0, 0, BYTES + M * 8 * 8),
    Program("complex multiplication", jnp.multiply, (ones(M, dtype=jnp.complex64),) * 2, 0, 6 * M, 3 * 8 * M),
    Program("embedding", lambda t, i: t[i], (TABLE, ROWS), 0, 0, 2 * 16 * ROW + 64),
    Program("rows of a table by a slice", lambda t: t[100:116] * 2, (TABLE,), 0, 16 * 128, 2 * 16 * ROW),
    Program("scatter-add with donation", lambda t, i, g: t.at[i].add(g), (TABLE, ROWS, ones(16, 128)), 0, 16 * 128,
            3 * 16 * ROW + 64, options={"donate_argnums": 0}, formula="updates read, rows read and written"),
    Program("update in place with donation", lambda t, r: t.at[3].set(r), (TABLE, ones(128)), 0, 0, 2 * ROW,
            options={"donate_argnums": 0}),
    Program("update without donation", lambda t, r: t.at[3].set(r), (TABLE, ones(128)), 0, 0, 2 * TABLE.nbytes),
    Program("Adam with donation", _adam, (X, X, X, X), 0, 12 * M * M, None, options={"donate_argnums": (0, 1, 2)},
            formula="3 for the mean, 4 for the variance, 5 for the step; the number of passes is the compiler's"),
    Program("random bits: no FLOPs", lambda k: jax.random.bits(k, (M, M)), (jax.random.key(0),), 0, 0),
)  # fmt: skip
