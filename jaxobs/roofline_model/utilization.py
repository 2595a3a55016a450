"""Model and hardware FLOPs utilisation: matrix FLOPs over wall time and the matrix peak."""

from __future__ import annotations

from typing import NamedTuple

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.known_values import typed_seconds, usable


class Utilization(NamedTuple):
    """The share of the matrix peak that matrix FLOPs reached: those of the model (MFU), and all that ran (HFU)."""

    mfu: float | None
    hfu: float | None
    reason: str | None
    """Why one of them, or both, are absent."""


def model_flops_utilization(
    cost: Cost, seconds: float | None, peaks: Peaks, model_flops: float | None = None
) -> Utilization:
    """MFU and HFU over wall time (PaLM, arXiv:2204.02311, appendix B; HFU counts rematerialised work too).

    The FLOPs of each element type are compared with the peak of that type, as the program asked for it; float32 FLOPs
    whose precision the program left to the device, with the peak of the type that the device runs them in.

    Args:
        cost: Work on one device in `seconds`.
        seconds: Wall time, s.
        peaks: Of that device.
        model_flops: The user's own count of FLOPs on one device in `seconds`, for the MFU; shared out
            over the element types as the counted ones are.
    """
    missing: list[str] = []
    asked = peaks.types_run_in(cost.matrix_flops_by_type, cost.float32_flops_by_precision)
    rematerialized_flops = peaks.types_run_in(
        cost.rematerialized_flops_by_type, cost.rematerialized_float32_flops_by_precision
    )
    hardware = typed_seconds("matrix", asked, peaks.matrix_peak, missing)
    rematerialized = typed_seconds("rematerialised matrix", rematerialized_flops, peaks.matrix_peak, missing)
    wall = usable(seconds)
    if missing:
        return Utilization(None, None, "no peak for " + ", ".join(dict.fromkeys(missing)))
    if not hardware:
        return Utilization(None, None, "no matrix work was counted")
    if wall is None:
        return Utilization(None, None, f"the wall time is no positive number: {seconds} s")
    model: float | None = hardware - (rematerialized or 0.0)
    if model_flops is not None:
        model = hardware * model_flops / cost.matrix_flops if usable(model_flops) else None
    mfu, hfu = usable(model / wall if model is not None else None), usable(hardware / wall)
    amount = "the model's matrix work" if model_flops is None else f"the FLOPs given, {model_flops},"
    reason = None if mfu and hfu else f"{amount} over {wall} s is no positive number"
    if reason is None and max(mfu or 0.0, hfu or 0.0) > 1:
        reason = "above 1: the matrix peak is too low (measured while other work ran?), or the time is"
    return Utilization(mfu, hfu, reason)
