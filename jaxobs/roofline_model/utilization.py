"""Model and hardware FLOPs utilisation: matrix work over wall time and the matrix peak."""

from __future__ import annotations

from typing import NamedTuple

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.known_values import typed_seconds, usable


class Utilization(NamedTuple):
    """Share of the matrix peak that the matrix FLOPs took: of the model (MFU), and of all that ran (HFU)."""

    mfu: float | None
    hfu: float | None
    reason: str | None
    """Why one of them, or both, are absent."""


def model_flops_utilization(
    cost: Cost, seconds: float | None, peaks: Peaks, model_flops: float | None = None
) -> Utilization:
    """MFU and HFU over wall time (PaLM, arXiv:2204.02311, appendix B; HFU counts rematerialised work too).

    Each element type's FLOPs are set against its own peak, that of the type the program asked for; those in float32 whose
    precision it left to the device, against the peak of what the device takes for it.

    Args:
        cost: Work on one device in `seconds`.
        seconds: Wall time, s.
        peaks: Of that device.
        model_flops: The user's own count of FLOPs on one device in `seconds`, for the MFU; shared out
            over the element types as the counted ones are.
    """
    missing: list[str] = []
    asked = peaks.types_run_in(cost.matrix_flops_by_type, cost.float32_flops_by_precision)
    repeated = peaks.types_run_in(
        cost.rematerialized_flops_by_type, cost.rematerialized_float32_flops_by_precision
    )
    hardware = typed_seconds("matrix", asked, peaks.matrix_peak, missing)
    again = typed_seconds("rematerialised matrix", repeated, peaks.matrix_peak, missing)
    wall = usable(seconds)
    if missing:
        return Utilization(None, None, "no peak for " + ", ".join(dict.fromkeys(missing)))
    if not hardware:
        return Utilization(None, None, "no matrix work was counted")
    if wall is None:
        return Utilization(None, None, f"the wall time is no positive number: {seconds} s")
    model: float | None = hardware - (again or 0.0)
    if model_flops is not None:
        model = hardware * model_flops / cost.matrix_flops if usable(model_flops) else None
    mfu, hfu = usable(model / wall if model is not None else None), usable(hardware / wall)
    amount = "the model's matrix work" if model_flops is None else f"the FLOPs given, {model_flops},"
    reason = None if mfu and hfu else f"{amount} over {wall} s is no positive number"
    if reason is None and max(mfu or 0.0, hfu or 0.0) > 1:
        reason = "above 1: the matrix peak is too low (measured while other work ran?), or the time is"
    return Utilization(mfu, hfu, reason)
