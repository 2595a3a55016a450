"""Counts how often opcodes with a scalar computation, such as reductions, apply it."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2, prod
from typing import Final

from jaxobs.cost_model.arithmetic.products import dimension_positions, met_outputs
from jaxobs.cost_model.collectives import group_size
from jaxobs.cost_model.hlo.instructions import HloDecodeError, Instruction


def _reduce(instruction: Instruction) -> float:
    """Applications in a reduction of n elements to m results: n − m, since the initial value is neutral."""
    return instruction.operand(0).shape.elements - instruction.shape.leaves()[0].elements


def _reduce_window(instruction: Instruction) -> float:
    """The elements in each window less one, summed over all windows with any element; padding is no element."""
    given, result = instruction.operand(0).shape.dimensions, instruction.shape.leaves()[0].dimensions
    window = instruction.message.window.dimensions
    if not len(given) == len(window) == len(result):
        raise HloDecodeError(f"reduce-window {instruction.name!r} whose window does not fit its shapes")
    along = list(zip(window, given, result, strict=True))
    elements = prod(dimension_positions(dimension, size, length) for dimension, size, length in along)
    return elements - prod(met_outputs(dimension, size, length) for dimension, size, length in along)


def _scatter(instruction: Instruction) -> float:
    """One application for each element of the updates."""
    return instruction.operand(-1).shape.elements


def _select_and_scatter(instruction: Instruction) -> float:
    """One application for each element of the source; selecting the places only compares."""
    return instruction.operand(1).shape.elements


def _map(instruction: Instruction) -> float:
    return instruction.shape.elements


def _sort(instruction: Instruction) -> float:
    """Comparisons: n ⌈log₂ n⌉ for each row of n; a comparator rarely has any floating arithmetic."""
    keys = instruction.operand(0).shape
    axis = next(iter(instruction.message.dimensions), len(keys.dimensions) - 1)
    if not 0 <= axis < len(keys.dimensions):
        raise HloDecodeError(f"sort {instruction.name!r} along dimension {axis} of {list(keys.dimensions)}")
    length = keys.dimensions[axis]
    return float(keys.elements) * ceil(log2(length)) if length > 1 else 0.0


def _collective_reduction(instruction: Instruction) -> float:
    """One device's share, (n − 1)/n · S, of the work in which n devices combine n copies of S elements."""
    members = group_size(instruction) or 1
    elements = sum(operand.shape.elements for operand in instruction.operands)
    return elements * (members - 1) / members


APPLICATIONS: Final[dict[str, Callable[[Instruction], float]]] = {
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    "sort": _sort,
    "all-reduce": _collective_reduction,
    "all-reduce-start": _collective_reduction,
    "reduce-scatter": _collective_reduction,
}
"""Counts by opcode. The computation applied is the first one called, or for select-and-scatter the second."""
