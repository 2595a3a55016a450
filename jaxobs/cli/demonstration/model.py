"""A decoder-only transformer in plain JAX, which predicts the next byte from bytes.

Layers are scanned, so that XLA compiles one of them whatever their number, and each is rematerialised in the backward
pass: the FLOPs that this repeats are the difference between HFU and MFU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

VOCABULARY = 256

Parameters: TypeAlias = dict[str, Any]
"""Arrays by name; those under `layers` have the layer as their first dimension."""


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of the model and of a step, and the element type that it computes in; parameters stay float32."""

    width: int
    layers: int
    heads: int
    length: int
    """The number of bytes of context."""
    examples: int
    learning_rate: float
    dtype: str

    @property
    def tokens(self) -> int:
        """The number of tokens in one step."""
        return self.examples * self.length


SIZES = {
    "cpu": Size(width=128, layers=4, heads=4, length=128, examples=8, learning_rate=3e-3, dtype="float32"),
    "gpu": Size(
        width=768, layers=12, heads=12, length=512, examples=16, learning_rate=6e-4, dtype="bfloat16"
    ),
}
"""Sizes by JAX's default backend. On a CPU a step does 6.6 GFLOP, some 0.1 s on two cores; on a GPU 5 TFLOP in 4 GB of
memory, some 20 ms on the largest of today."""


def default_size() -> Size:
    """The size for JAX's default backend, which is made if necessary; all but a CPU count as a GPU."""
    return SIZES["cpu" if jax.default_backend() == "cpu" else "gpu"]


def initial_parameters(key: jax.Array, size: Size) -> Parameters:
    """Random parameters, float32: normal, 0.02 wide, and narrower by √(2 · layers) where a residual is written.

    The widths are those of GPT-2 (Radford et al. 2019, §2.3).
    """
    width, layers = size.width, size.layers
    shapes = {
        "tokens": (VOCABULARY, width),
        "positions": (size.length, width),
        "attention_in": (layers, width, 3 * width),
        "attention_out": (layers, width, width),
        "feed_forward_in": (layers, width, 4 * width),
        "feed_forward_out": (layers, 4 * width, width),
    }
    ends = list(accumulate(math.prod(shape) for shape in shapes.values()))
    # One draw for all parameters, because XLA takes about as long to compile each draw as this one.
    drawn = jnp.split(0.02 * jax.random.normal(key, (ends[-1],), jnp.float32), ends[:-1])
    arrays = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), drawn, strict=True)}
    outer = {name: arrays.pop(name) for name in ("tokens", "positions")}
    for name in ("attention_out", "feed_forward_out"):
        arrays[name] /= (2 * layers) ** 0.5
    for name in ("attention_norm", "feed_forward_norm"):
        arrays[name] = jnp.ones((layers, width))
    return {**outer, "norm": jnp.ones(width), "layers": arrays}


def loss(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The mean cross entropy of each next byte, in nats, for `tokens` int32[examples, length + 1]."""
    odds = jax.nn.log_softmax(logits(parameters, tokens[:, :-1], size))
    right = jnp.take_along_axis(odds, tokens[:, 1:, None], axis=-1)
    return -jnp.mean(right)


def logits(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The logits of each next byte: float32[examples, length, VOCABULARY].

    Args:
        parameters: As `initial_parameters` makes them.
        tokens: int32[examples, length], with a length up to that of `size`.
        size: Heads and element type are taken from it.
    """
    dtype = jnp.dtype(size.dtype)
    stream = (parameters["tokens"][tokens] + parameters["positions"][: tokens.shape[1]]).astype(dtype)
    layers = jax.tree.map(lambda array: array.astype(dtype), parameters["layers"])

    @jax.checkpoint
    def layer(stream: jax.Array, weights: Parameters) -> tuple[jax.Array, None]:
        stream += _attention(_normalised(stream, weights["attention_norm"]), weights, size.heads)
        hidden = _normalised(stream, weights["feed_forward_norm"]) @ weights["feed_forward_in"]
        return stream + jax.nn.gelu(hidden) @ weights["feed_forward_out"], None

    stream, _ = jax.lax.scan(layer, stream, layers)
    stream = _normalised(stream, parameters["norm"].astype(dtype))
    odds: jax.Array = stream @ parameters["tokens"].T.astype(dtype)
    return odds.astype(jnp.float32)


def _attention(stream: jax.Array, weights: Parameters, heads: int) -> jax.Array:
    """Causal self-attention: [examples, length, width] to the same."""
    query, key, value = (
        part.reshape(*part.shape[:2], heads, -1)
        for part in jnp.split(stream @ weights["attention_in"], 3, axis=-1)
    )
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    projected: jax.Array = mixed.reshape(stream.shape) @ weights["attention_out"]
    return projected


def _normalised(stream: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation (Zhang and Sennrich 2019)."""
    mean_square = jnp.mean(jnp.square(stream.astype(jnp.float32)), axis=-1, keepdims=True)
    return (stream * jax.lax.rsqrt(mean_square + 1e-6)).astype(stream.dtype) * scale
