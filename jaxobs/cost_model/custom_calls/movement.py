"""Rules for custom calls without floating arithmetic: selection, sorting, padding, placement."""

from __future__ import annotations

from typing import Final

from jaxobs.cost_model.custom_calls.protocol import CustomCall, Rule
from jaxobs.model.cost import Cost


def nothing(_: CustomCall) -> Cost:
    """The cost of an annotation, which runs nothing."""
    return Cost()


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(
        (
            "TopK",
            "__gpu$TopK",
            "__cub$DeviceRadixSort",
            "__cub$DeviceRadixSortUnassignedScratchSize",
            "PadToStatic",
            "SliceToDynamic",
            "cu_threefry2x32_ffi",
            "cu_lu_pivots_to_permutation",
            "hip_lu_pivots_to_permutation",
        ),
        CustomCall.movement,  # comparisons and integer work are no FLOPs
    ),
    **dict.fromkeys(
        (
            "AllocateBuffer",
            "CreateBuffer",
            "Pin",
            "Unpin",
            "Sharding",
            "SPMDFullToShardShape",
            "SPMDShardToFullShape",
            "LayoutConstraint",
            "annotate_device_placement",
        ),
        nothing,
    ),
}
