"""Loops and branches, static and dynamic."""

from typing import Any

import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones

N = 256
A = ones(N, N)
PRODUCT = 2 * N**3


def _scan(length: int) -> Any:
    return lambda x, w: lax.scan(lambda c, _: (c @ w, None), x, None, length=length)[0]


def _collatz(n: Any, x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] @ s[1]), (0, x))[1]


PROGRAMS = (
    Program("scan of 100 products", _scan(100), (A, A), 100 * PRODUCT, 0),
    Program("fori_loop of 10 products", lambda x, w: lax.fori_loop(0, 10, lambda _, c: c @ w, x), (A, A),
            10 * PRODUCT, 0),
    Program("nested scans of 4 × 5 products",
            lambda x, w: lax.scan(lambda c, _: (_scan(5)(c, w), None), x, None, length=4)[0], (A, A), 20 * PRODUCT, 0),
    Program("scan over stacked weights", lambda x, ws: lax.scan(lambda c, w: (c @ w, None), x, ws)[0],
            (ones(8, N), ones(12, N, N)), 12 * 2 * 8 * N * N, 0),
    Program("map over a batch", lambda xs: lax.map(lambda x: x @ x, xs), (ones(7, 64, 64),), 7 * 2 * 64**3, 0),
    Program("loop with a dynamic bound", _collatz, (5, A), PRODUCT, 0, exact=False, formula="one pass, flagged"),
    Program("conditional", lambda p, x: lax.cond(p, lambda y: y @ y, lambda y: y @ y @ y, x), (True, A), PRODUCT, 0,
            exact=False, formula="the least branch, flagged"),
    Program("conditional with equal branches", lambda p, x, y: lax.cond(p, lambda: x @ y, lambda: y @ x),
            (True, A, A), PRODUCT, 0),
    Program("running sum", jnp.cumsum, (ones(100),), 0, None),
)  # fmt: skip
