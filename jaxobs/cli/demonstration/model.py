"""A decoder-only transformer in plain JAX: bytes in, the next byte's odds out.

Layers are scanned, so that XLA compiles one of them whatever their number, and each is rematerialised in the backward
pass: the FLOPs done twice for it are what separates HFU from MFU.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    """Bytes of context."""
    examples: int
    learning_rate: float
    dtype: str

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.examples * self.length


SIZES = {
    "cpu": Size(width=128, layers=4, heads=4, length=128, examples=8, learning_rate=3e-3, dtype="float32"),
    "gpu": Size(
        width=768, layers=12, heads=12, length=512, examples=16, learning_rate=6e-4, dtype="bfloat16"
    ),
}
"""By JAX's default backend. On a CPU a step does 6.6 GFLOP, some 0.1 s on two cores; on a GPU 5 TFLOP in 4 GB of memory,
some 20 ms on the largest of today."""


def size_for(backend: str) -> Size:
    """The size for a backend of JAX (`cpu`, `gpu`, `tpu`, …): whatever is no CPU is taken for a large accelerator."""
    return SIZES["cpu" if backend == "cpu" else "gpu"]


def initial_parameters(key: jax.Array, size: Size) -> Parameters:
    """Random parameters, float32: normal, 0.02 wide, and narrower by √(2 · layers) where a residual is written.

    The widths are those of GPT-2 (Radford et al. 2019, §2.3).
    """
    width, layers = size.width, size.layers
    keys = jax.random.split(key, 6)

    def normal(index: int, *shape: int, scale: float = 0.02) -> jax.Array:
        return scale * jax.random.normal(keys[index], shape, jnp.float32)

    narrow = 0.02 / (2 * layers) ** 0.5
    return {
        "tokens": normal(0, VOCABULARY, width),
        "positions": normal(1, size.length, width),
        "norm": jnp.ones(width),
        "layers": {
            "attention_norm": jnp.ones((layers, width)),
            "attention_in": normal(2, layers, width, 3 * width),
            "attention_out": normal(3, layers, width, width, scale=narrow),
            "feed_forward_norm": jnp.ones((layers, width)),
            "feed_forward_in": normal(4, layers, width, 4 * width),
            "feed_forward_out": normal(5, layers, 4 * width, width, scale=narrow),
        },
    }


def loss(parameters: Parameters, tokens: jax.Array, size: Size) -> jax.Array:
    """The mean cross entropy of each next byte, nats.

    Args:
        parameters: As `initial_parameters` makes them.
        tokens: int32[examples, length + 1], with a length up to that of `size`.
        size: Heads and element type are taken from it.
    """
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    dtype = jnp.dtype(size.dtype)
    stream = (parameters["tokens"][given] + parameters["positions"][: given.shape[1]]).astype(dtype)
    layers = jax.tree.map(lambda array: array.astype(dtype), parameters["layers"])

    @jax.checkpoint
    def layer(stream: jax.Array, weights: Parameters) -> tuple[jax.Array, None]:
        stream += _attention(_normalised(stream, weights["attention_norm"]), weights, size.heads)
        hidden = _normalised(stream, weights["feed_forward_norm"]) @ weights["feed_forward_in"]
        return stream + jax.nn.gelu(hidden) @ weights["feed_forward_out"], None

    stream, _ = jax.lax.scan(layer, stream, layers)
    stream = _normalised(stream, parameters["norm"].astype(dtype))
    logits = (stream @ parameters["tokens"].T.astype(dtype)).astype(jnp.float32)
    odds = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(odds, wanted[..., None], axis=-1).mean()


def _attention(stream: jax.Array, weights: Parameters, heads: int) -> jax.Array:
    """Causal self-attention: [examples, length, width] to the same."""
    query, key, value = (
        part.reshape(*part.shape[:2], heads, -1)
        for part in jnp.split(stream @ weights["attention_in"], 3, axis=-1)
    )
    mixed = jax.nn.dot_product_attention(query, key, value, is_causal=True)
    return mixed.reshape(stream.shape) @ weights["attention_out"]


def _normalised(stream: jax.Array, scale: jax.Array) -> jax.Array:
    """Root-mean-square normalisation (Zhang and Sennrich 2019)."""
    mean_square = jnp.mean(jnp.square(stream.astype(jnp.float32)), axis=-1, keepdims=True)
    return (stream * jax.lax.rsqrt(mean_square + 1e-6)).astype(stream.dtype) * scale
