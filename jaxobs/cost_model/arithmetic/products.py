"""Multiply-adds of the opcodes that are matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jaxobs.cost_model.arithmetic.convolution import convolution_multiply_adds
from jaxobs.cost_model.arithmetic.dot import dot_multiply_adds, ragged_dot_multiply_adds
from jaxobs.cost_model.hlo.instructions import Instruction


def _dot(instruction: Instruction) -> float:
    numbers = instruction.message.dot_dimension_numbers
    return dot_multiply_adds(instruction.operand(0).shape, instruction.operand(1).shape, numbers)


def _ragged_dot(instruction: Instruction) -> float:
    numbers = instruction.message.ragged_dot_dimension_numbers
    return ragged_dot_multiply_adds(instruction.operand(0).shape, instruction.operand(1).shape, numbers)


def _convolution(instruction: Instruction) -> float:
    left, right = instruction.operand(0).shape, instruction.operand(1).shape
    return convolution_multiply_adds(left, right, instruction.shape, instruction.message)


MULTIPLY_ADDS: Final[dict[str, Callable[[Instruction], float]]] = {
    "dot": _dot,
    "ragged-dot": _ragged_dot,
    "convolution": _convolution,
}
"""Multiply-adds by opcode; operands 0 and 1 are the two sides."""
