"""Rules for dense factorisations in cuSOLVER and cuBLAS, and in their ROCm counterparts."""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.arithmetic.linear_algebra import cholesky_flops
from jaxobs.cost_model.custom_calls import lapack
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.model.cost import Cost


def xla_cholesky(call: CustomCall) -> Cost:
    """The cost of XLA's own Cholesky call, whose result is a tuple of factor, workspace and status."""
    batch, rows = lapack.first_matrix(call)[1:3]
    return lapack.factor_cost(call, batch * cholesky_flops(rows), workspaces=2)


_ROUTINES: Final[dict[str, Rule]] = {
    "potrf": lapack.cholesky,
    "getrf": lapack.lu,
    "getrf_batched": lapack.lu,
    "geqrf": lapack.qr,
    "geqrf_batched": lapack.qr,
    "orgqr": lapack.householder_product,
    "sytrd": lapack.tridiagonal_reduction,
    "gtsv2": lapack.tridiagonal_solve,
    "trsm_batched": lapack.triangular_solve,
}

RULES: Final[dict[str, Rule]] = {
    **{
        f"{library}_{routine}{suffix}": rule
        for library in ("cusolver", "cublas", "cusparse", "hipsolver", "hipblas", "hipsparse")
        for routine, rule in _ROUTINES.items()
        for suffix in ("", "_ffi")
    },
    "__cusolver$cholesky": xla_cholesky,
    # XLA's own factorisations, for backends that keep these calls instead of expanding them.
    "Qr": lapack.qr,
    "LuDecomposition": lapack.lu,
    "ProductOfElementaryHouseholderReflectors": lapack.householder_product,
    "__cublas$triangularSolve": lapack.triangular_solve,
}
