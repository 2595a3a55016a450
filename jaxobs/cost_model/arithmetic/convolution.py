"""FLOPs of convolutions: only positions of the kernel that fall on real input elements are counted."""

from __future__ import annotations

from typing import Any

from jaxobs.cost_model.arithmetic.windows import dimension_positions
from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.shapes import Shape


def _dimension(shape: Shape, index: int) -> int:
    if not 0 <= index < len(shape.dimensions):
        raise HloDecodeError(f"convolution dimension {index} is outside {list(shape.dimensions)}")
    return shape.dimensions[index]


def convolution_multiply_adds(input_: Shape, kernel: Shape, output: Shape, message: Any) -> float:
    """Multiply-adds of a convolution with the dimension numbers and the window of an instruction's message.

    Output batch × output features × input features of one group × valid window positions of each spatial
    dimension. The kernel's input feature dimension holds one group's features already. Padding, and the
    holes of a dilated (transposed) input, are no work.
    """
    numbers, window = message.convolution_dimension_numbers, message.window
    spatial = len(window.dimensions)
    if not (
        spatial
        == len(numbers.input_spatial_dimensions)
        == len(numbers.output_spatial_dimensions)
        == len(numbers.kernel_spatial_dimensions)
    ):
        raise HloDecodeError("convolution whose window and spatial dimensions differ in number")
    total = float(_dimension(output, numbers.output_batch_dimension))
    total *= _dimension(output, numbers.output_feature_dimension)
    total *= _dimension(kernel, numbers.kernel_input_feature_dimension)
    for index, dimension in enumerate(window.dimensions):
        size = _dimension(input_, numbers.input_spatial_dimensions[index])
        length = _dimension(output, numbers.output_spatial_dimensions[index])
        total *= dimension_positions(dimension, size, length)
    return total
