"""Rules for LAPACK on the CPU: dense factorisations. Iterative ones (eigenvalues, singular values) stay unmodelled.

Targets are ``lapack_<type><routine>_ffi``; up to JAX 0.4 without the suffix, and then also ``blas_<type>trsm``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from jaxobs.cost_model.arithmetic import factorisations
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.cost_model.hlo.instructions import Shape
from jaxobs.model.cost import Cost
from jaxobs.proto.element_types import Kind


def first_matrix(call: CustomCall) -> tuple[Shape, int, int, int]:
    """The first operand that is a stack of floating matrices: its shape, the number of matrices, rows, columns."""
    for shape in call.operands:
        if shape.floating and len(shape.dimensions) >= 2:
            *batch, rows, columns = shape.dimensions
            return shape, prod(batch), rows, columns
    raise ValueError("no operand is a floating matrix")


def factor_cost(call: CustomCall, flops: float, *, workspaces: int = 0) -> Cost:
    """The cost of an operation with this many FLOPs on real matrices; complex ones take four times as many."""
    shape = first_matrix(call)[0]
    times = 4 if shape.type.kind is Kind.COMPLEX else 1
    return call.matrix(times * flops, of=shape, bytes=call.memory_bytes(workspaces=workspaces))


def factorisation(flops: Callable[[int, int], float]) -> Rule:
    """A rule from the FLOPs of one m × n real matrix."""

    def rule(call: CustomCall) -> Cost:
        _, batch, rows, columns = first_matrix(call)
        return factor_cost(call, batch * flops(rows, columns))

    return rule


def triangular_solve(call: CustomCall) -> Cost:
    """The cost of n² FLOPs for each right-hand side. Operands: the triangle (n × n), the right-hand sides."""
    _, batch, rows, _ = first_matrix(call)
    return factor_cost(call, factorisations.triangular_solves_flops(batch, rows, call.operands[1]))


def householder_product(call: CustomCall) -> Cost:
    """The cost of a product of reflectors. Operands: the reflectors (m × n) and their k scalar factors."""
    _, batch, rows, columns = first_matrix(call)
    factors = (
        call.operands[1].dimensions[-1] if len(call.operands) > 1 and call.operands[1].dimensions else columns
    )
    return factor_cost(
        call, batch * factorisations.householder_product_flops(rows, columns, min(factors, columns))
    )


def tridiagonal_solve(call: CustomCall) -> Cost:
    """The cost of tridiagonal systems. Operands: three diagonals (… × n) and the right-hand sides (… × n × k)."""
    *stack, rows, columns = call.operands[3].dimensions
    return factor_cost(call, prod(stack) * factorisations.tridiagonal_solve_flops(rows, columns))


cholesky: Final = factorisation(lambda m, n: factorisations.cholesky_flops(m))
lu: Final = factorisation(factorisations.lu_flops)
qr: Final = factorisation(factorisations.qr_flops)
tridiagonal_reduction: Final = factorisation(lambda m, n: factorisations.tridiagonal_reduction_flops(m))
hessenberg_reduction: Final = factorisation(lambda m, n: factorisations.hessenberg_reduction_flops(m))

_ROUTINES: Final[dict[str, Rule]] = {
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
    "trsm": triangular_solve,
}

RULES: Final[dict[str, Rule]] = {
    f"{library}_{letter}{routine}{suffix}": rule
    for library in ("lapack", "blas")
    for letter in "sdcz"
    for routine, rule in _ROUTINES.items()
    for suffix in ("", "_ffi")
}
