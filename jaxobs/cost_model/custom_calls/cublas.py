"""Rules for matrix products in cuBLAS and cuBLASLt, in rocBLAS under the same names, and in oneDNN.

The configuration is a ``GemmBackendConfig`` as JSON (openxla/xla, ``xla/service/gpu/backend_configs.proto``).
Operands are the two sides, then what the epilogue adds; the last array of a tuple result is the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from jaxobs.cost_model.arithmetic.dot import dot_multiply_adds, multiply_add_flops
from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.cost_model.element_types.precision import executed_by_cublas
from jaxobs.model.cost import Cost

_SIDES: Final = (
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
    "lhs_batch_dimensions",
    "rhs_batch_dimensions",
)


def dimension_numbers(configuration: Mapping[str, Any]) -> SimpleNamespace:
    """``DotDimensionNumbers`` from JSON, where integers are strings and empty lists may be absent."""
    numbers = {side: [int(number) for number in configuration.get(side, ())] for side in _SIDES}
    return SimpleNamespace(**numbers)


def gemm(call: CustomCall) -> Cost | None:
    """The cost of a product: ``2 b m n k``, and the epilogue's additions and activations for each of its elements."""
    configuration = call.configuration.get("gemm_backend_config", call.configuration)
    numbers = configuration.get("dot_dimension_numbers")
    if numbers is None or len(call.operands) < 2:
        return None
    left, right = call.operands[:2]
    flops = multiply_add_flops(left, right) * dot_multiply_adds(left, right, dimension_numbers(numbers))
    if not flops:
        return call.movement()
    product = call.results[0]
    epilogue = str(configuration.get("epilogue", "DEFAULT"))
    additions = ("BIAS" in epilogue) + (float(configuration.get("beta", 0)) != 0)
    gelu = product.elements if "GELU" in epilogue else 0
    # The tanh form of GELU: 8 additions and multiplications and one tanh for each element.
    vector = float(additions * product.elements + 8 * gelu)
    narrower = min((left, right), key=lambda side: side.type.bits)
    executed = executed_by_cublas(configuration, narrower.type.part)
    return call.matrix(
        flops,
        of=narrower,
        executed=executed.type,
        precision=executed.precision,
        vector_flops_by_type={product.type.part: vector} if vector else {},
        transcendentals=float(gelu),
        bytes=call.memory_bytes(workspaces=call.workspaces),
    )


def onednn_matmul(call: CustomCall) -> Cost | None:
    """The cost of a oneDNN product, over the left's last dimension and the right's last but one unless transposed."""
    configuration = call.configuration.get("onednn_matmul_config", {})
    if len(call.operands) < 2:
        return None
    left, right = call.operands[:2]
    rank = len(left.dimensions)
    if rank < 2 or len(right.dimensions) != rank:
        return None
    batch = list(range(rank - 2))
    numbers = SimpleNamespace(
        lhs_contracting_dimensions=[rank - 2 if configuration.get("transpose_a") else rank - 1],
        rhs_contracting_dimensions=[rank - 1 if configuration.get("transpose_b") else rank - 2],
        lhs_batch_dimensions=batch,
        rhs_batch_dimensions=batch,
    )
    flops = multiply_add_flops(left, right) * dot_multiply_adds(left, right, numbers)
    return call.matrix(flops, of=left) if flops else call.movement()


RULES: Final[dict[str, Rule]] = {
    "__cublas$gemm": gemm,
    "__cublas$lt$matmul": gemm,
    "__cublas$lt$matmul$f8": gemm,
    "__onednn$matmul": onednn_matmul,
}
