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


def cholesky_flops(n: int) -> float:
    """Cholesky factor of an n × n matrix: n³/3."""
    return n**3 / 3


def triangular_solve_flops(n: int, right_hand_sides: int) -> float:
    """N × n triangular system with the given number of right-hand sides: n² each."""
    return float(n) * n * right_hand_sides


def triangular_solves_flops(matrices: int, n: int, right: Shape) -> float:
    """A stack of n × n triangular systems whose right-hand sides are together in one array."""
    rows = matrices * n
    return matrices * triangular_solve_flops(n, right.elements // rows if rows else 0)


def lu_flops(m: int, n: int) -> float:
    """LU factors of an m × n matrix with k = min(m, n): 2 m n k − (m + n) k² + 2 k³/3; 2 n³/3 where m = n."""
    k = min(m, n)
    return 2.0 * m * n * k - float(m + n) * k**2 + 2 * k**3 / 3


def qr_flops(m: int, n: int) -> float:
    """Householder QR of an m × n matrix: 2 m n k − (m + n) k² + 2 k³/3, doubled; 4 n³/3 where m = n."""
    return 2 * lu_flops(m, n)


def householder_product_flops(m: int, n: int, k: int) -> float:
    """First n columns of the product of k reflectors of length m: 4 m n k − 2 (m + n) k² + 4 k³/3."""
    return 4.0 * m * n * k - 2.0 * (m + n) * k**2 + 4 * k**3 / 3


def tridiagonal_reduction_flops(n: int) -> float:
    """Reduction of a symmetric n × n matrix to tridiagonal form: 4 n³/3."""
    return 4 * n**3 / 3


def hessenberg_reduction_flops(n: int) -> float:
    """Reduction of a general n × n matrix to Hessenberg form: 10 n³/3."""
    return 10 * n**3 / 3


def tridiagonal_solve_flops(n: int, right_hand_sides: int) -> float:
    """Tridiagonal system by elimination: 3 (n − 1) for the factors, 5 n − 4 for each right-hand side."""
    return max(0.0, 3.0 * (n - 1) + (5.0 * n - 4) * right_hand_sides)


def fourier_flops(length: int, *, real: bool) -> float:
    """One transform of ``length`` points: 5 N log₂ N, or half of it where one side is real.

    The usual convention (benchFFT, M. Frigo and S. G. Johnson), whatever the algorithm; a transform of
    several dimensions counts as one of as many points.
    """
    if length < 2:
        return 0.0
    return (2.5 if real else 5.0) * length * log2(length)


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
    return triangular_solves_flops(matrices, order, instruction.operand(1).shape)


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
