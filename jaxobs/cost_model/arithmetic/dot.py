"""FLOPs of dot products: ``2 b m n k``, four times that on complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.shapes import Shape
from jaxobs.proto.element_types import Kind


def _extent(shape: Shape, dimensions: Sequence[int], what: str) -> int:
    size = 1
    for dimension in dimensions:
        if not 0 <= dimension < len(shape.dimensions):
            raise HloDecodeError(
                f"{what} dimension {dimension} of a product is outside {list(shape.dimensions)}"
            )
        size *= shape.dimensions[dimension]
    return size


def multiply_add_flops(left: Shape, right: Shape) -> int:
    """FLOPs of one multiply-add: 2 on real numbers, 8 on complex ones, 4 on a mix; 0 between integers.

    A complex multiplication is 4 real ones and 2 additions, a complex addition is 2.
    """
    if not left.floating and not right.floating:
        return 0
    complexes = (left.type.kind is Kind.COMPLEX) + (right.type.kind is Kind.COMPLEX)
    return (2, 4, 8)[complexes]


def dot_multiply_adds(left: Shape, right: Shape, numbers: Any) -> float:
    """Multiply-adds of a dot product with the given ``DotDimensionNumbers``: b m n k."""
    contracted = _extent(left, numbers.lhs_contracting_dimensions, "contracted")
    batch = _extent(left, numbers.lhs_batch_dimensions, "batch")
    shared = contracted * batch
    if shared == 0:
        return 0.0
    return float(left.elements) * right.elements / shared


def ragged_dot_multiply_adds(left: Shape, right: Shape, numbers: Any) -> float:
    """Multiply-adds of a ragged dot product: each ragged row meets one group of the right side.

    With the ragged dimension among the rows, b m k n: the group dimension of the right side counts once.
    With it contracted, each group's share of it is contracted once: b m k n again, whatever the groups.
    """
    dot = numbers.dot_dimension_numbers
    contracted = _extent(left, dot.lhs_contracting_dimensions, "contracted")
    groups = _extent(right, numbers.rhs_group_dimensions, "group")
    if numbers.rhs_group_dimensions:
        shared = contracted * _extent(left, dot.lhs_batch_dimensions, "batch") * groups
        return float(left.elements) * right.elements / shared if shared else 0.0
    return dot_multiply_adds(left, right, dot)
