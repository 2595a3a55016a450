"""FLOPs of the opcodes that factorise, solve or transform."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from jaxobs.cost_model.arithmetic.linear_algebra import cholesky_flops, fourier_flops, triangular_solve_flops
from jaxobs.cost_model.errors import HloDecodeError
from jaxobs.cost_model.hlo.instructions import Instruction
from jaxobs.cost_model.hlo.shapes import Shape
from jaxobs.proto.element_types import Kind


def _stack(instruction: Instruction) -> tuple[Shape, int, int]:
    """The first operand as a stack of square matrices: its shape, the number of matrices, and their order."""
    shape = instruction.operand(0).shape
    if len(shape.dimensions) < 2:
        raise HloDecodeError(f"{instruction.opcode} {instruction.name!r} on fewer than two dimensions")
    return shape, prod(shape.dimensions[:-2]), shape.dimensions[-2]


def _cholesky(instruction: Instruction) -> float:
    _, matrices, order = _stack(instruction)
    return matrices * cholesky_flops(order)


def _triangular_solve(instruction: Instruction) -> float:
    _, matrices, order = _stack(instruction)
    rows = matrices * order
    right_hand_sides = instruction.operand(1).shape.elements // rows if rows else 0
    return matrices * triangular_solve_flops(order, right_hand_sides)


FACTORISATIONS: Final[dict[str, Callable[[Instruction], float]]] = {
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
}
"""FLOPs on real numbers by opcode; complex numbers take four times as many. Operand 0 has the type."""


def fft_flops(instruction: Instruction) -> float:
    """FLOPs of all transforms of an ``fft`` instruction; one of several dimensions has the product of its lengths."""
    given, result = instruction.operand(0).shape, instruction.shape
    points: int = prod(instruction.message.fft_length)
    if points <= 0:
        return 0.0
    between_complexes = given.type.kind is Kind.COMPLEX and result.type.kind is Kind.COMPLEX
    # Of a real signal's spectrum only half is stored, so the transforms are counted on the real side.
    whole = given if given.type.kind is not Kind.COMPLEX else result
    return whole.elements / points * fourier_flops(points, real=not between_complexes)
