"""Attention: 2 · 2 · batch · heads · queries · keys · head size, the masked pairs included on a CPU."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones

B, T, N, H = 2, 128, 8, 32
FULL = 2 * 2 * B * N * T * T * H
Q = ones(B, T, N, H)


def _decode(cache_k: Any, cache_v: Any, q: Any, k: Any, v: Any, place: Any) -> Any:
    """One new token against a cache of 1024, updated in place."""
    cache_k = lax.dynamic_update_slice(cache_k, k, (0, place, 0, 0))
    cache_v = lax.dynamic_update_slice(cache_v, v, (0, place, 0, 0))
    scores = jax.nn.softmax(jnp.einsum("bnh,btnh->bnt", q, cache_k))
    return cache_k, cache_v, jnp.einsum("bnt,btnh->bnh", scores, cache_v)


CACHE, TOKEN = ones(B, 1024, N, H), ones(B, 1, N, H)

PROGRAMS = (
    Program("attention", jax.nn.dot_product_attention, (Q, Q, Q), FULL),
    Program("causal attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), (Q, Q, Q), FULL,
            formula="the CPU computes masked pairs too"),
    Program("grouped-query attention", jax.nn.dot_product_attention, (Q, ones(B, T, 2, H), ones(B, T, 2, H)), FULL),
    Program("cross attention", jax.nn.dot_product_attention, (Q, ones(B, 64, N, H), ones(B, 64, N, H)), FULL // 2),
    Program("attention, gradient", jax.grad(lambda q, k, v: jnp.sum(jax.nn.dot_product_attention(q, k, v) ** 2),
            (0, 1, 2)), (Q, Q, Q), 3 * FULL, formula="backward is twice forward"),
    Program("cached decoding", _decode, (CACHE, CACHE, ones(B, N, H), TOKEN, TOKEN, 3), 2 * 2 * B * N * 1024 * H,
            options={"donate_argnums": (0, 1)}),
)  # fmt: skip
