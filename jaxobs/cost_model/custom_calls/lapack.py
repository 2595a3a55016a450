"""Rules for dense factorisations and solves: those of LAPACK on the CPU, and the opcodes that backends keep.

FLOPs are the leading terms for real matrices, from G. H. Golub and C. F. Van Loan, "Matrix Computations", and LAPACK
Working Note 41 (appendix on operation counts); complex ones take four times as many. Iterative routines (eigenvalues,
singular values) stay unmodelled. Targets are ``lapack_<type><routine>_ffi``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.cost_model.hlo.instructions import Shape
from jaxobs.model.cost import Cost
from jaxobs.proto.element_types import Kind


def _first_matrix(call: CustomCall) -> tuple[Shape, int, int, int]:
    """The first operand that is a stack of floating matrices: its shape, the number of matrices, rows, columns."""
    for shape in call.operands:
        if shape.floating and len(shape.dimensions) >= 2:
            *batch, rows, columns = shape.dimensions
            return shape, prod(batch), rows, columns
    raise ValueError("no operand is a floating matrix")


def _factor_cost(call: CustomCall, flops: float) -> Cost:
    """The cost of an operation with this many FLOPs on real matrices; complex ones take four times as many."""
    shape = _first_matrix(call)[0]
    return call.matrix((4 if shape.type.kind is Kind.COMPLEX else 1) * flops, of=shape)


def factorisation(flops: Callable[[int, int], float]) -> Rule:
    """A rule from the FLOPs of one m × n real matrix."""

    def rule(call: CustomCall) -> Cost:
        _, batch, rows, columns = _first_matrix(call)
        return _factor_cost(call, batch * flops(rows, columns))

    return rule


def triangular_solve(call: CustomCall) -> Cost:
    """The cost of n² FLOPs for each right-hand side. Operands: the triangles (n × n), all right-hand sides."""
    _, _, rows, _ = _first_matrix(call)
    return _factor_cost(call, float(rows) * call.operands[1].elements)


def householder_product(call: CustomCall) -> Cost:
    """The cost of a product of reflectors. Operands: the reflectors (m × n) and their k scalar factors.

    First n columns of the product of k reflectors of length m: 4 m n k − 2 (m + n) k² + 4 k³/3.
    """
    _, batch, m, n = _first_matrix(call)
    factors = call.operands[1].dimensions[-1] if len(call.operands) > 1 and call.operands[1].dimensions else n
    k = min(factors, n)
    return _factor_cost(call, batch * (4.0 * m * n * k - 2.0 * (m + n) * k**2 + 4 * k**3 / 3))


def tridiagonal_solve(call: CustomCall) -> Cost:
    """The cost of tridiagonal systems. Operands: three diagonals (… × n) and the right-hand sides (… × n × k).

    By elimination: 3 (n − 1) for the factors, 5 n − 4 for each right-hand side.
    """
    *stack, n, columns = call.operands[3].dimensions
    return _factor_cost(call, prod(stack) * max(0.0, 3.0 * (n - 1) + (5.0 * n - 4) * columns))


def _lu_flops(m: int, n: int) -> float:
    """LU factors of an m × n matrix with k = min(m, n): 2 m n k − (m + n) k² + 2 k³/3; 2 n³/3 where m = n."""
    k = min(m, n)
    return 2.0 * m * n * k - float(m + n) * k**2 + 2 * k**3 / 3


cholesky: Final = factorisation(lambda m, n: m**3 / 3)
lu: Final = factorisation(_lu_flops)
qr: Final = factorisation(lambda m, n: 2 * _lu_flops(m, n))
"""Householder QR: 4 n³/3 where m = n."""
tridiagonal_reduction: Final = factorisation(lambda m, n: 4 * m**3 / 3)
"""Reduction of a symmetric matrix."""
hessenberg_reduction: Final = factorisation(lambda m, n: 10 * m**3 / 3)
"""Reduction of a general matrix."""

ROUTINES: Final[dict[str, Rule]] = {
    "potrf": cholesky,
    "getrf": lu,
    "geqrf": qr,
    "geqp3": qr,
    "orgqr": householder_product,
    "ungqr": householder_product,
    "sytrd": tridiagonal_reduction,
    "hetrd": tridiagonal_reduction,
    "gehrd": hessenberg_reduction,
    "gtsv": tridiagonal_solve,
    "gtsv2": tridiagonal_solve,
    "trsm": triangular_solve,
}

RULES: Final[dict[str, Rule]] = {
    "cholesky": cholesky,
    "triangular-solve": triangular_solve,
    **{f"lapack_{letter}{routine}_ffi": rule for letter in "sdcz" for routine, rule in ROUTINES.items()},
}
"""Rules by custom-call target, or by opcode."""
