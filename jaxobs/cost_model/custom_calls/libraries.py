"""Rules for calls of libraries: NVIDIA's and AMD's products, convolutions and factorisations, oneDNN's products.

And for calls without floating arithmetic: selection, sorting, padding, placement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jaxobs.cost_model.arithmetic.products import (
    convolution_multiply_adds,
    dot_multiply_adds,
    multiply_add_flops,
)
from jaxobs.cost_model.custom_calls import lapack
from jaxobs.cost_model.custom_calls.protocol import SCRATCH, CustomCall, Rule
from jaxobs.cost_model.precision import executed_by_cublas, executed_by_cudnn
from jaxobs.model.cost import Cost

# Rules for matrix products in cuBLAS and cuBLASLt, in rocBLAS under the same names, and in oneDNN.
#
# The configuration is a ``GemmBackendConfig`` as JSON (openxla/xla,
# ``xla/service/gpu/backend_configs.proto``). Operands are the two sides, then what the epilogue adds; the
# last array of a tuple result is the workspace.


def gemm(call: CustomCall) -> Cost | None:
    """The cost of a product: ``2 b m n k``, and the epilogue's additions and activations for each of its elements."""
    configuration = call.configuration.get("gemm_backend_config", call.configuration)
    numbers = configuration.get("dot_dimension_numbers")
    if numbers is None or len(call.operands) < 2:
        return None
    left, right = call.operands[:2]
    flops = multiply_add_flops(left, right) * dot_multiply_adds(left, right, _shared(numbers))
    if not flops:
        return None
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
    )


def _shared(numbers: Mapping[str, Any]) -> list[int]:
    """The left side's batch and contracted dimensions: integers are strings, and empty lists may be absent."""
    kinds = (numbers.get(f"lhs_{kind}_dimensions", ()) for kind in ("batch", "contracting"))
    return [int(number) for dimensions in kinds for number in dimensions]


def _product(call: CustomCall, shared: Sequence[int], groups: Sequence[int] = ()) -> Cost | None:
    """The cost of a product of the first two operands, in the wider of their types; None if it has no FLOPs."""
    left, right = call.operands[:2]
    flops = multiply_add_flops(left, right) * dot_multiply_adds(left, right, shared, groups)
    wider = max((left, right), key=lambda side: side.type.bits)
    return call.matrix(flops, of=wider) if flops else None


def grouped_gemm(call: CustomCall) -> Cost | None:
    """The cost of a ragged product in hipBLASLt. Operands: the two sides, and the sizes of the groups."""
    numbers = call.configuration.get("grouped_gemm_backend_config", {}).get("ragged_dot_dimension_numbers")
    if numbers is None or len(call.operands) < 2:
        return None
    groups = [int(number) for number in numbers.get("rhs_group_dimensions", ())]
    return _product(call, _shared(numbers.get("dot_dimension_numbers", {})), groups)


def onednn_matmul(call: CustomCall) -> Cost | None:
    """The cost of a oneDNN product, over the left's last dimension unless that is transposed."""
    if len(call.operands) < 2:
        return None
    left, right = call.operands[:2]
    rank = len(left.dimensions)
    if rank < 2 or len(right.dimensions) != rank:
        return None
    transposed = call.configuration.get("onednn_matmul_config", {}).get("transpose_a")
    return _product(call, [*range(rank - 2), rank - 2 if transposed else rank - 1])


def block_scaled_dot(call: CustomCall) -> Cost | None:
    """The cost of a product of blocks with a scale each, ``2 b m n k``: the last dimension of both sides is contracted.

    Operands: left (b × m × k), right (b × n × k), their scales; b may be absent (openxla/xla,
    ``xla/service/gpu/transforms/block_scaling_rewriter.cc``). The scales are applied within the matrix unit.
    """
    if len(call.operands) < 4 or len(call.operands[0].dimensions) not in (2, 3):
        return None
    rank = len(call.operands[0].dimensions)
    return _product(call, [*range(rank - 2), rank - 1])


def cumulative_sum(call: CustomCall) -> Cost:
    """The cost of running sums along rows of ``row_length``, each one addition less than it has elements."""
    given = call.operands[0]
    additions = given.elements * (1 - 1 / call.attributes["row_length"])
    vector = {given.type.part: additions} if given.floating else {}
    return Cost(bytes=call.memory_bytes(), vector_flops_by_type=vector)


# Rules for convolutions in cuDNN, and in MIOpen under the same names.
#
# Window and dimension numbers are those of the forward convolution, whichever of its three arrays the call
# computes (openxla/xla, ``xla/service/gpu/cublas_cudnn.h``); its multiply-adds are the same for all three.
# The result is a tuple that ends with the workspace.


def convolution(input_: int, kernel: int, output: int, *, biased: bool = False) -> Rule:
    """A rule from the places of a forward convolution's arrays among the call's: two operands, then the result.

    `biased`: further operands are a bias and perhaps a side input, which are added.
    """

    def rule(call: CustomCall) -> Cost | None:
        result = call.results[0]
        arrays = (*call.operands[:2], result)
        message = call.instruction.message
        multiply_adds = convolution_multiply_adds(arrays[input_], arrays[kernel], arrays[output], message)
        if not (per_multiply_add := multiply_add_flops(*call.operands[:2])):
            return None
        vector = float((len(call.operands) - 2) * result.elements) if biased else 0.0
        floating = next(operand for operand in call.operands if operand.floating)
        return call.matrix(
            per_multiply_add * multiply_adds,
            of=floating,
            precision=executed_by_cudnn(call.instruction, floating.type.part).precision,
            vector_flops_by_type={result.type.part: vector} if vector else {},
        )

    return rule


ANNOTATIONS: Final = (
    # Shardings: openxla/xla, xla/service/spmd/shard_barrier_partitioner.h and xla/service/spmd/shardy/constants.h.
    "InspectSharding", "Sharding", "ShardBarrierFrom", "ShardBarrierTo", "SPMDFullToShardShape",
    "SPMDShardToFullShape", "xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape", "xla.sdy.PropagationBarrier", "xla.sdy.Sharding", "xla.sdy.ShardingGroup",
    # Memory spaces: xla/service/memory_annotations.h. What is moved there is moved by copies.
    "MoveToDevice", "MoveToHost", "PinToDevice", "PinToDeviceSram", "annotate_device_placement",
    # Buffers and layouts.
    "AllocateBuffer", "CreateBuffer", "LayoutConstraint", "Pin", SCRATCH, "Unpin",
    # What XLA for TPUs tells itself, as seen in modules of a v6e: where asynchronous calls begin and end, and that
    # indices are within bounds.
    "AssumeGatherIndicesInBound", "AssumeScatterIndicesInBound", "Noop", "PrepareAsyncCallDone",
    "PrepareAsyncCallStart",
)  # fmt: skip
"""Targets of calls that only tell something to the compiler, and run nothing."""

MOVEMENTS: Final = (
    "TopK", "__gpu$TopK", "__cub$DeviceRadixSort", "__cub$DeviceRadixSortUnassignedScratchSize",
    "xla.gpu.ext.cub_sort_keys", "xla.gpu.ext.cub_sort_pairs", "GetRngSeed", "PadToStatic", "SliceToDynamic",
    "cu_threefry2x32_ffi", "hip_threefry2x32_ffi", "cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation",
)  # fmt: skip
"""Targets of calls that compare, or do integer work: no FLOPs."""

RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8"), gemm),
    **dict.fromkeys(
        ("__cublas$lt$matmul$mx", "__cudnn$blockScaledDot", "__op$block_scaled_dot"), block_scaled_dot
    ),
    "__cublas$lt$groupedMatmul": grouped_gemm,
    "__onednn$matmul": onednn_matmul,
    **dict.fromkeys(("__cudnn$convForward", "__cudnn$convForwardGraph"), convolution(0, 1, 2)),
    "__cudnn$convBiasActivationForward": convolution(0, 1, 2, biased=True),
    "__cudnn$convBackwardInput": convolution(2, 1, 0),
    "__cudnn$convBackwardFilter": convolution(0, 2, 1),
    **{
        f"{library}_{routine}{suffix}": rule
        for library in ("cusolver", "cublas", "cusparse", "hipsolver", "hipblas", "hipsparse")
        for routine, rule in lapack.ROUTINES.items()
        for suffix in ("", "_ffi", "_batched", "_batched_ffi")
    },
    "__cusolver$cholesky": lapack.cholesky,
    # XLA's own factorisations, for backends that keep these calls instead of expanding them.
    "Qr": lapack.qr,
    "LuDecomposition": lapack.lu,
    "ProductOfElementaryHouseholderReflectors": lapack.householder_product,
    "__cublas$triangularSolve": lapack.triangular_solve,
    "xla.gpu.ext.cub_scan": cumulative_sum,
    **dict.fromkeys(MOVEMENTS, CustomCall.movement),
    **dict.fromkeys(ANNOTATIONS, lambda _: Cost()),
}
"""Rules by custom-call target."""
