"""The element types in which a device runs matrix products."""

from __future__ import annotations

from dataclasses import replace

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost


def executed_flops(cost: Cost, peaks: Peaks) -> dict[str, float]:
    """Matrix FLOPs by the type in which a device with these peaks multiplies, each pass counted."""
    compiled = cost.executed_matrix_flops_by_type or cost.matrix_flops_by_type
    return peaks.types_run_in(compiled, cost.float32_flops_by_precision)


def run_on(cost: Cost, peaks: Peaks) -> Cost:
    """The cost with the types that the device runs its products in, which the module alone does not show."""
    return replace(cost, executed_matrix_flops_by_type=executed_flops(cost, peaks))
