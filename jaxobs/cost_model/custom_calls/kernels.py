"""Rules for custom calls without floating arithmetic: selection, sorting, padding, placement."""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.model.cost import Cost


def nothing(_: CustomCall) -> Cost:
    """The cost of an annotation, which runs nothing."""
    return Cost()


ANNOTATIONS: Final = (
    # Shardings: openxla/xla, xla/service/spmd/shard_barrier_partitioner.h and xla/service/spmd/shardy/constants.h.
    "InspectSharding", "Sharding", "ShardBarrierFrom", "ShardBarrierTo", "SPMDFullToShardShape",
    "SPMDShardToFullShape", "xla.sdy.FuncResultSharding", "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape", "xla.sdy.PropagationBarrier", "xla.sdy.Sharding", "xla.sdy.ShardingGroup",
    # Memory spaces: xla/service/memory_annotations.h. What is moved there is moved by copies.
    "MoveToDevice", "MoveToHost", "PinToDevice", "PinToDeviceSram", "annotate_device_placement",
    # Buffers and layouts.
    "AllocateBuffer", "CreateBuffer", "LayoutConstraint", "Pin", "Unpin",
    # What XLA for TPUs tells itself, as seen in modules of a v6e: where asynchronous calls begin and end, and that
    # indices are within bounds.
    "AssumeGatherIndicesInBound", "AssumeScatterIndicesInBound", "Noop", "PrepareAsyncCallDone",
    "PrepareAsyncCallStart",
)  # fmt: skip
"""Targets of calls that only tell something to the compiler, and run nothing."""

MOVEMENTS: Final = (
    "TopK", "__gpu$TopK", "__cub$DeviceRadixSort", "__cub$DeviceRadixSortUnassignedScratchSize", "PadToStatic",
    "SliceToDynamic", "cu_threefry2x32_ffi", "cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation",
)  # fmt: skip
"""Targets of calls that compare, or do integer work: no FLOPs."""

MOVEMENT_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(MOVEMENTS, CustomCall.movement),
    **dict.fromkeys(ANNOTATIONS, nothing),
}
