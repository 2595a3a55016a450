"""Convolutions; positions on padding or between dilated elements are no work."""

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.accuracy.program import Program, ones


def met(
    size: int, window: int, stride: int = 1, low: int = 0, high: int = 0, dilation: int = 1, holes: int = 1
) -> int:
    """Pairs of output and kernel position that meet an element, along one dimension, by counting them."""
    widened = (size - 1) * holes + 1
    outputs = (widened + low + high - (window - 1) * dilation - 1) // stride + 1
    places = (o * stride + k * dilation - low for o, k in product(range(outputs), range(window)))
    return sum(0 <= place < widened and place % holes == 0 for place in places)


def _convolution(
    name: str, image: tuple[int, ...], kernel: tuple[int, ...], pairs: int, **options: Any
) -> Program:
    options = {"window_strides": (1, 1), "padding": "SAME"} | options
    batch, out_features, group_features = image[0], kernel[0], kernel[1]
    flops = 2 * batch * out_features * group_features * pairs
    return Program(
        f"convolution {name}",
        lambda x, k: lax.conv_general_dilated(x, k, **options),
        (ones(*image), ones(*kernel)),
        matrix_flops=flops,
        formula="2 · batch · output features · input features of a group · valid positions",
    )


IMAGE, KERNEL = (4, 8, 16, 16), (16, 8, 3, 3)
SAME = met(16, 3, low=1, high=1) ** 2
FORWARD = 2 * 4 * 16 * 8 * SAME


def _layer(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(x, k, (1, 1), "SAME")


def _residual_block(kernels: Any, x: Any) -> Any:
    return jnp.sum(jax.nn.relu(_layer(jax.nn.relu(_layer(x, kernels[0])), kernels[1]) + x))


def _unet(kernels: Any, x: Any) -> Any:
    """A diffusion U-Net's block: down, middle, up, with a skip connection."""
    down, middle, up = kernels
    low = lax.conv_general_dilated(x, down, (2, 2), ((1, 1), (1, 1)))
    low = jax.nn.silu(_layer(low, middle))
    high = lax.conv_general_dilated(low, up, (1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2))
    return jnp.concatenate([x, high], axis=1)


_UNET = 2 * 4 * 8 * 8 * (
    met(16, 3, stride=2, low=1, high=1) ** 2
    + met(8, 3, low=1, high=1) ** 2
    + met(8, 3, low=1, high=2, holes=2) ** 2
)  # fmt: skip

PROGRAMS = (
    _convolution("3 × 3, same", IMAGE, KERNEL, SAME),
    _convolution("3 × 3, valid", IMAGE, KERNEL, 14 * 14 * 9, padding="VALID"),
    _convolution("1 × 1", IMAGE, (16, 8, 1, 1), 256),
    _convolution("strided", IMAGE, KERNEL, met(16, 3, stride=2, high=1) ** 2, window_strides=(2, 2)),
    _convolution("dilated", IMAGE, KERNEL, met(16, 3, low=2, high=2, dilation=2) ** 2, rhs_dilation=(2, 2)),
    _convolution("depthwise", IMAGE, (8, 1, 3, 3), SAME, feature_group_count=8),
    _convolution("in four groups", IMAGE, (16, 2, 3, 3), SAME, feature_group_count=4),
    _convolution("transposed", IMAGE, (8, 8, 2, 2), met(16, 2, low=1, high=1, holes=2) ** 2,
                 padding=((1, 1), (1, 1)), lhs_dilation=(2, 2)),
    _convolution("over time", (4, 8, 128), (16, 8, 5), met(128, 5, low=2, high=2), window_strides=(1,)),
    _convolution("in three dimensions", (2, 4, 8, 8, 8), (8, 4, 3, 3, 3), met(8, 3, low=1, high=1) ** 3,
                 window_strides=(1, 1, 1)),
    _convolution("patches of a vision transformer", (4, 3, 32, 32), (64, 3, 8, 8), 4 * 4 * 64,
                 window_strides=(8, 8), padding="VALID"),
    Program("convolution, both gradients", lambda x, k, g: jax.vjp(_layer, x, k)[1](g),
            (ones(*IMAGE), ones(*KERNEL), ones(4, 16, 16, 16)), 2 * FORWARD,
            formula="each gradient pairs the same elements as the convolution itself"),
    Program("residual block, forward and backward", jax.grad(_residual_block),
            ((ones(8, 8, 3, 3), ones(8, 8, 3, 3)), ones(4, 8, 16, 16)), 5 * 2 * 4 * 8 * 8 * SAME,
            formula="2 forward, 2 kernel gradients, 1 input gradient"),
    Program("U-Net block", _unet, ((ones(8, 8, 3, 3),) * 3, ones(4, 8, 16, 16)), _UNET),
)  # fmt: skip
