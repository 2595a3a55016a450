"""Programs whose memory a hand can count: for `test_memory.py`, and here because each has a line that is looked for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

LAYERS, BATCH, HEADS, LENGTH, WIDTH, WORDS = 12, 2, 4, 128, 64, 512
SCORES = BATCH * HEADS * LENGTH * LENGTH * 4
"""Bytes of one array of attention scores in float32."""


def norm(x: Any) -> Any:
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)


def attention(x: Any, layer: Any) -> Any:
    with jax.named_scope("attention"):
        query, key, value = (
            (norm(x) @ layer[name]).reshape(BATCH, -1, HEADS, WIDTH // HEADS) for name in ("q", "k", "v")
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        weights = jax.nn.softmax(scores, -1)  # line of the softmax
        return x + jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape)


def block(x: Any, layer: Any) -> Any:
    x = attention(x, layer)
    with jax.named_scope("mlp"):
        return x + jnp.tanh(norm(x) @ layer["up"]) @ layer["down"]


def loss(parameters: Any, tokens: Any, *, again: bool, scanned: bool) -> Any:
    x = parameters["embed"][tokens]
    layer = jax.checkpoint(block) if again else block
    if scanned:
        x, _ = jax.lax.scan(lambda x, weights: (layer(x, weights), None), x, parameters["layers"])
    else:
        for number in range(LAYERS):
            x = layer(x, {name: stacked[number] for name, stacked in parameters["layers"].items()})
    return (norm(x) ** 2).mean()


def transformer_step(parameters: Any, tokens: Any, *, again: bool = False, scanned: bool = True) -> Any:
    gradient = jax.grad(partial(loss, again=again, scanned=scanned))(parameters, tokens)
    return jax.tree_util.tree_map(lambda weight, slope: weight - 0.1 * slope, parameters, gradient)


def adam_step(state: Any, tokens: Any) -> Any:
    """Until the new state is made, its places hold temporaries."""
    parameters, mean, square = state
    slopes = jax.grad(partial(loss, again=False, scanned=False))(parameters, tokens)
    mean = jax.tree_util.tree_map(lambda old, slope: 0.9 * old + 0.1 * slope, mean, slopes)
    square = jax.tree_util.tree_map(lambda old, slope: 0.99 * old + 0.01 * slope * slope, square, slopes)

    def moved(weight: Any, mean: Any, square: Any) -> Any:
        return weight - 1e-3 * mean * jax.lax.rsqrt(square + 1e-8)

    return jax.tree_util.tree_map(moved, parameters, mean, square), mean, square


def transformer_arguments() -> tuple[Any, Any]:
    shapes = dict.fromkeys(("q", "k", "v"), (LAYERS, WIDTH, WIDTH))
    shapes |= {"up": (LAYERS, WIDTH, 4 * WIDTH), "down": (LAYERS, 4 * WIDTH, WIDTH)}
    layers = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    embed = jax.ShapeDtypeStruct((WORDS, WIDTH), jnp.float32)
    return {"layers": layers, "embed": embed}, jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)


def layered_loss(layers: Any, x: Any, *, again: bool = False) -> Any:
    """Each turn uses what the one before left, and makes larger values before it makes what it leaves itself."""

    def turn(x: Any, layer: Any) -> Any:
        return x + jax.nn.gelu(x @ layer["up"]) @ layer["down"], None

    return (jax.lax.scan(jax.checkpoint(turn) if again else turn, x, layers)[0] ** 2).mean()


def recurrent_loss(weights: Any, words: Any, *, again: bool = False) -> Any:
    def cell(carried: Any, word: Any) -> Any:
        hidden, memory = carried
        gate = jax.nn.sigmoid(hidden @ weights["gate"] + word)
        memory = gate * memory + (1 - gate) * jnp.tanh(hidden @ weights["new"] + word)
        return (jnp.tanh(memory) * gate, memory), memory

    begin = jnp.zeros(words.shape[1:])
    return (jax.lax.scan(jax.checkpoint(cell) if again else cell, (begin, begin), words)[1] ** 2).mean()


def one_hot_loss(embed: Any, words: Any) -> Any:
    wide = jax.nn.one_hot(words, embed.shape[0], dtype=embed.dtype)  # line of the one-hot
    return (jnp.sin(wide @ embed) ** 2).sum()


def stacking(x: Any, weights: Any) -> Any:
    def turn(x: Any, _: None) -> Any:
        x = jnp.tanh(x @ weights)  # line of what is stacked
        return x, x

    _, stacked = jax.lax.scan(turn, x, None, length=40)
    return jnp.sort(stacked, axis=0)[20]


def attention_without_flash(query: Any, key: Any, value: Any) -> Any:
    weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", query, key))
    return jnp.einsum("hqk,hkd->hqd", weights, value).sum()


def update(state: Any, batch: Any) -> Any:
    return jax.tree_util.tree_map(lambda part: part * 0.9 + batch.mean(), state)


def with_float64(x: Any, factor: Any) -> Any:
    wide = jnp.sort(x * factor, axis=0)  # line that makes it wide
    return jnp.sort(wide @ wide, axis=0).sum()


def line_of(comment: str) -> int:
    """The number of the line here that ends in the comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {comment}"))
