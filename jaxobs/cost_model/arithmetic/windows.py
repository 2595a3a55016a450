"""Counts the positions of a moving window that fall on real elements, not on padding or between dilated ones."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any, Final

from jaxobs.cost_model.errors import HloDecodeError

_LONGEST: Final = 1_000_000


@lru_cache(maxsize=4096)
def valid_positions(
    size: int,
    output: int,
    window: int,
    stride: int,
    padding_low: int,
    window_dilation: int,
    base_dilation: int,
) -> int:
    """The number of pairs (output position, window position) that meet an input element, along one dimension.

    Output position ``o`` and window position ``k`` meet the dilated input at
    ``o * stride + k * window_dilation - padding_low``; an element is there where that lies inside and is a
    multiple of ``base_dilation``. Counted in closed form along the output for each window position.
    """
    stride, window_dilation, base_dilation = stride or 1, window_dilation or 1, base_dilation or 1
    if size <= 0 or output <= 0 or window <= 0:
        return 0
    if min(stride, window_dilation, base_dilation) < 0 or (window > _LONGEST and output > _LONGEST):
        raise HloDecodeError(f"implausible window: size {window}, stride {stride}, over {size} elements")
    if window > output:  # the condition is symmetric in the two: run over the shorter
        return valid_positions(size, window, output, window_dilation, padding_low, stride, base_dilation)
    last_element = (size - 1) * base_dilation
    step = base_dilation // gcd(stride, base_dilation)
    inverse = pow(stride * step // base_dilation, -1, step) if step > 1 else 0
    total = 0
    for position in range(window):
        offset = position * window_dilation - padding_low
        first = max(0, -(offset // stride))
        last = min(output - 1, (last_element - offset) // stride)
        if last < first:
            continue
        if base_dilation == 1:
            total += last - first + 1
            continue
        common = base_dilation // step
        if offset % common:
            continue
        residue = (-offset // common * inverse) % step
        start = first + (residue - first) % step
        total += (last - start) // step + 1 if last >= start else 0
    return total


def dimension_positions(dimension: Any, size: int, output: int) -> int:
    """``valid_positions`` of one ``WindowDimension``."""
    return valid_positions(
        size,
        output,
        dimension.size,
        dimension.stride,
        dimension.padding_low,
        dimension.window_dilation,
        dimension.base_dilation,
    )


def met_outputs(dimension: Any, size: int, output: int) -> int:
    """The number of output positions along one dimension whose window meets any real element.

    Exact, from the window's ends, where nothing is dilated, as in reductions; otherwise an upper bound.
    """
    if dimension.window_dilation > 1 or dimension.base_dilation > 1 or not dimension.size or not size:
        return min(output, dimension_positions(dimension, size, output))
    stride: int = dimension.stride or 1
    first = max(0, -((dimension.size - 1 - dimension.padding_low) // stride))
    last = min(output - 1, (size - 1 + dimension.padding_low) // stride)
    return int(max(0, last - first + 1))
