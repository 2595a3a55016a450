"""The transformer of `jaxobs demo` in two sizes, its matrix FLOPs in closed form, and the loop that trains it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from jaxobs.cli.demonstration import VOCABULARY, Parameters, Size, initial_parameters, train_step

LARGE = Size(width=1024, layers=24, heads=16, length=1024, examples=16, learning_rate=1e-4, dtype="bfloat16")
"""302 million parameters in products; 30 TFLOP of 6ND a step, some 80 ms on an H200 at 40 % of its peak."""

SMALL = Size(width=64, layers=2, heads=4, length=64, examples=4, learning_rate=1e-4, dtype="bfloat16")
"""For a CPU: milliseconds a step."""


def product_parameters(size: Size) -> int:
    """N of 6ND: those in matrix products. Of a layer: queries, keys, values, output, and two of the MLP.

    The embedding is looked up, the logits are a product.
    """
    return size.layers * 12 * size.width**2 + size.width * VOCABULARY


def attention_flops(size: Size) -> int:
    """Scores and their product with the values, of the forward pass of one step: XLA computes masked pairs too."""
    return 4 * size.layers * size.examples * size.length**2 * size.width


def model_flops(size: Size) -> int:
    """Matrix FLOPs of one training step without rematerialised ones: 6ND, and three passes over the attention.

    6ND is of Kaplan et al. 2020, arXiv:2001.08361, section 2.1.
    """
    return 6 * product_parameters(size) * size.tokens + 3 * attention_flops(size)


def rematerialized_flops(size: Size) -> int:
    """Matrix FLOPs done again in the backward pass: each layer's forward pass without its last product.

    No gradient needs the result of that one.
    """
    return 2 * size.layers * 8 * size.width**2 * size.tokens + attention_flops(size)


def batch_of(size: Size) -> jax.Array:
    """Random tokens, `length` + 1 of each row, on the device."""
    return jax.random.randint(jax.random.key(0), (size.examples, size.length + 1), 0, VOCABULARY)


def started(size: Size, batch: jax.Array) -> Parameters:
    """The parameters after a first step, which compiles."""
    parameters: Parameters
    parameters, loss = train_step(initial_parameters(np.random.default_rng(0), size), batch, size)
    loss.block_until_ready()
    return parameters


READ_EVERY = 10
"""Steps between two looks at the loss: in between the host runs ahead, as most training does."""


def train(
    step: Any,
    state: Any,
    batch: Any,
    size: Size,
    turns: Iterable[object],
    record: Callable[..., object] = dict,
) -> tuple[int, float]:
    """How many steps there were, and the seconds of one in the later half, by the loop's own clock.

    Raises RuntimeError where there are too few steps to tell.
    """
    marks, number = [], 0
    for number, _ in enumerate(turns, 1):
        state, loss = step(state, batch, size)
        record(loss=loss)
        if number % READ_EVERY == 0:
            loss.block_until_ready()
            marks.append((number, time.perf_counter()))
    if len(marks) < 2:
        raise RuntimeError(f"{number} steps ended: too few to tell a step time from")
    (first, began), (last, ended) = marks[(len(marks) - 1) // 2], marks[-1]
    return number, (ended - began) / (last - first)
