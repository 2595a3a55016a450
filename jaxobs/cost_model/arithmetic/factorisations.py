"""FLOPs of dense factorisations, solves and Fourier transforms with a closed form, and of the opcodes that are such.

Leading terms for real matrices, from G. H. Golub and C. F. Van Loan, "Matrix Computations", and LAPACK
Working Note 41 (appendix on operation counts). Complex ones take four times as many.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod
from typing import Final

from jaxobs.cost_model.hlo.instructions import HloDecodeError, Instruction, Shape
from jaxobs.proto.element_types import Kind


def cholesky_flops(matrices: int, n: int) -> float:
    """Cholesky factors of a stack of n × n matrices: n³/3 for each."""
    return matrices * n**3 / 3


def triangular_solves_flops(matrices: int, n: int, right: Shape) -> float:
    """A stack of n × n triangular systems whose right-hand sides are together in one array: n² for each."""
    rows = matrices * n
    right_hand_sides = right.elements // rows if rows else 0
    return matrices * float(n) * n * right_hand_sides


def _stack(instruction: Instruction) -> tuple[int, int]:
    """The number of square matrices in the first operand, and their order."""
    shape = instruction.operand(0).shape
    if len(shape.dimensions) < 2:
        raise HloDecodeError(f"{instruction.opcode} {instruction.name!r} on fewer than two dimensions")
    return prod(shape.dimensions[:-2]), shape.dimensions[-2]


FACTORISATIONS: Final[dict[str, Callable[[Instruction], float]]] = {
    "cholesky": lambda one: cholesky_flops(*_stack(one)),
    "triangular-solve": lambda one: triangular_solves_flops(*_stack(one), one.operand(1).shape),
}
"""FLOPs on real numbers by opcode; complex numbers take four times as many. Operand 0 has the type."""


def fft_flops(instruction: Instruction) -> float:
    """FLOPs of all transforms of an ``fft`` instruction: 5 N log₂ N each, or half of it where one side is real.

    The usual convention (benchFFT, M. Frigo and S. G. Johnson), whatever the algorithm; a transform of several dimensions
    counts as one of as many points.
    """
    given, result = instruction.operand(0).shape, instruction.shape
    points: int = prod(instruction.message.fft_length)
    if points < 2:
        return 0.0
    between_complexes = given.type.kind is Kind.COMPLEX and result.type.kind is Kind.COMPLEX
    # Of a real signal's spectrum only half is stored, so the transforms are counted on the real side.
    whole = given if given.type.kind is not Kind.COMPLEX else result
    return whole.elements / points * (5.0 if between_complexes else 2.5) * points * log2(points)
