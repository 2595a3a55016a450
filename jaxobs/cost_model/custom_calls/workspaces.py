"""Finds scratch memory that library calls list among their results; the compiler provides it, and it is no traffic."""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.hlo.instructions import Instruction

_BYTES: Final = ("int8", "uint8")

# The number of arrays at the end of the result that are scratch, by target or by its prefix: openxla/xla,
# xla/service/gpu/cublas_cudnn.h and gpu_sort_rewriter.cc. cuSOLVER has a workspace and a status.
_LAST: Final[dict[str, int]] = {
    "__cublas$gemm": 1,
    "__cublas$lt$matmul": 1,
    "__cublas$lt$matmul$f8": 1,
    "__cub$DeviceRadixSort": 1,
    "__cub$DeviceRadixSortUnassignedScratchSize": 1,
    "__cusolver$cholesky": 2,
    "te_fused_attn_forward_ffi": 1,
    "te_fused_attn_backward_ffi": 1,
}
_LAST_BY_PREFIX: Final = ("__cudnn$conv", "__cudnn$fmha")
_ONLY_OF_BYTES: Final = ("__cublas$", "__cub$")
"""Prefixes of targets that may lack scratch: it is there if the last array of the result is one of bytes."""


def workspaces(call: Instruction) -> int:
    """The number of a custom call's last results that are scratch memory."""
    target = call.target
    last = 1 if target.startswith(_LAST_BY_PREFIX) else _LAST.get(target, 0)
    if not last:
        return 0
    results = call.shape.leaves()
    if len(results) <= last:
        return 0
    if target.startswith(_ONLY_OF_BYTES) and results[-1].type.name not in _BYTES:
        return 0
    return last


def workspace_bytes(call: Instruction) -> float:
    """The bytes of a custom call's scratch memory."""
    last = workspaces(call)
    return float(sum(result.bytes for result in call.shape.leaves()[-last:])) if last else 0.0
