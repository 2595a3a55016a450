"""Multiply-adds of dot products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import gcd, prod
from typing import Any, Final

from jaxobs.cost_model.hlo.instructions import HloDecodeError, Instruction, Shape
from jaxobs.proto.element_types import Kind

_MAX_SIZE: Final = 1_000_000


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
    if min(stride, window_dilation, base_dilation) < 0 or (window > _MAX_SIZE and output > _MAX_SIZE):
        raise HloDecodeError(f"implausible window: size {window}, stride {stride}, over {size} elements")
    if window > output:  # the condition is symmetric in the two: run over the shorter
        return valid_positions(size, window, output, window_dilation, padding_low, stride, base_dilation)
    last_element = (size - 1) * base_dilation
    common = gcd(stride, base_dilation)
    step = base_dilation // common  # of the output positions that meet an element
    inverse = pow(stride // common, -1, step)
    total = 0
    for position in range(window):
        offset = position * window_dilation - padding_low
        if offset % common == 0:
            first = max(0, -(offset // stride))
            last = min(output - 1, (last_element - offset) // stride)
            start = first + (-offset // common * inverse - first) % step
            total += len(range(start, last + 1, step))
    return total


def dimension_positions(dimension: Any, size: int, output: int) -> int:
    """``valid_positions`` of one ``WindowDimension``."""
    dilations = dimension.window_dilation, dimension.base_dilation
    return valid_positions(size, output, dimension.size, dimension.stride, dimension.padding_low, *dilations)


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


def _extent(shape: Shape, dimensions: Sequence[int]) -> int:
    """The elements along these dimensions together."""
    for dimension in dimensions:
        if not 0 <= dimension < len(shape.dimensions):
            raise HloDecodeError(f"dimension {dimension} of a product is outside {list(shape.dimensions)}")
    return prod(shape.dimensions[dimension] for dimension in dimensions)


def multiply_add_flops(left: Shape, right: Shape) -> int:
    """FLOPs of one multiply-add: 2 on real numbers, 8 on complex ones, 4 on a mix; 0 between integers.

    A complex multiplication is 4 real ones and 2 additions, a complex addition is 2.
    """
    if not left.floating and not right.floating:
        return 0
    complexes = (left.type.kind is Kind.COMPLEX) + (right.type.kind is Kind.COMPLEX)
    return (2, 4, 8)[complexes]


def matrix_amounts(
    source: str, executed: str, flops: float, rematerialized: bool, precision: str | None = None
) -> dict[str, Any]:
    """Fields of a ``Cost`` of matrix FLOPs written in one type and run in another, float32 ones at a precision."""
    amounts = {"matrix_flops_by_type": {source: flops}, "executed_matrix_flops_by_type": {executed: flops}}
    if precision is not None:
        amounts["float32_flops_by_precision"] = {precision: flops}
    if rematerialized:
        amounts["rematerialized_flops_by_type"] = {source: flops}
        if precision is not None:
            amounts["rematerialized_float32_flops_by_precision"] = {precision: flops}
    return amounts


def dot_multiply_adds(left: Shape, right: Shape, shared: Sequence[int], groups: Sequence[int] = ()) -> float:
    """Multiply-adds of a dot product with these batch and contracted dimensions of the left side: b m n k.

    ``groups`` are the right side's dimensions that list the groups of a ragged product, of which each row meets one.
    Where the ragged dimension is contracted the right side has none: each group's share of it is contracted once.
    """
    counted_again = _extent(left, shared) * _extent(right, groups)
    return float(left.elements) * right.elements / counted_again if counted_again else 0.0


def convolution_multiply_adds(input_: Shape, kernel: Shape, output: Shape, message: Any) -> float:
    """Multiply-adds of a convolution with the dimension numbers and the window of an instruction's message.

    Output batch × output features × input features of one group × valid window positions of each spatial
    dimension. The kernel's input feature dimension holds one group's features already. Padding, and the
    holes of a dilated (transposed) input, are no work.
    """
    numbers, window = message.convolution_dimension_numbers, message.window.dimensions
    given, made = numbers.input_spatial_dimensions, numbers.output_spatial_dimensions
    if not len(window) == len(given) == len(made) == len(numbers.kernel_spatial_dimensions):
        raise HloDecodeError("convolution whose window and spatial dimensions differ in number")
    total = float(_extent(output, [numbers.output_batch_dimension, numbers.output_feature_dimension]))
    total *= _extent(kernel, [numbers.kernel_input_feature_dimension])
    for dimension, before, after in zip(window, given, made, strict=True):
        total *= dimension_positions(dimension, _extent(input_, [before]), _extent(output, [after]))
    return total


def _dot(instruction: Instruction) -> float:
    message = instruction.message
    numbers, groups = message.dot_dimension_numbers, message.ragged_dot_dimension_numbers.rhs_group_dimensions
    if instruction.opcode == "ragged-dot":
        numbers = message.ragged_dot_dimension_numbers.dot_dimension_numbers
    shared = (*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions)
    return dot_multiply_adds(instruction.operand(0).shape, instruction.operand(1).shape, shared, groups)


def _convolution(instruction: Instruction) -> float:
    left, right = instruction.operand(0).shape, instruction.operand(1).shape
    return convolution_multiply_adds(left, right, instruction.shape, instruction.message)


MULTIPLY_ADDS: Final[dict[str, Callable[[Instruction], float]]] = {
    "dot": _dot,
    "ragged-dot": _dot,
    "scaled-dot": _dot,
    "convolution": _convolution,
}
"""Multiply-adds by opcode; operands 0 and 1 are the two sides, those of a ``scaled-dot`` before their scales."""
