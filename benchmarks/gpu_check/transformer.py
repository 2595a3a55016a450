"""The transformer of `jaxobs demo` in two sizes, and its matrix FLOPs in closed form."""

from __future__ import annotations

from jaxobs.cli.demonstration import VOCABULARY, Size

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
