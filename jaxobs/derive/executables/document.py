"""An executable as the snapshot shows it: each value, or why it is not known."""

from __future__ import annotations

from typing import Any

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.gauges import rate
from jaxobs.derive.executables.kept_operations import LET_GO
from jaxobs.derive.executables.profiled import verdict_of_operations
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model import bottleneck
from jaxobs.roofline_model.bounds import efficiency
from jaxobs.roofline_model.execution_types import run_on

TRACED = "of runs that the profiler traced, which takes up to 0.7 µs an operation longer (measured on a CPU)"
"""What is said of a time that comes from windows alone. In a loop it is shortened by what its untraced steps took
(`traced_steps.untraced`); of one executable no untraced run is known."""

NOT_TIMED = (
    "no run has been timed: some calls a second are sampled and none of its was among them, or it has no output that is "
    "not donated and small beside the free memory"
)

NOT_SETTLED = "no step that it ran in has ended yet"


def executable_document(made: Executable, why_no_runs: str | None, peaks: Peaks | None) -> dict[str, Any]:
    """Its entry. `why_no_runs`: why its runs are not all counted; None where they are."""
    per_run, cost, bound = made.seconds_per_run, made.work, made.bound
    near = efficiency(bound, per_run) if bound is not None and per_run is not None else None
    runs, spent, source = _counted(made, why_no_runs)
    unmeasured = None if per_run is not None else why_no_runs or NOT_TIMED
    traced = TRACED if per_run is not None and not made.samples else None
    unbound = bound_reason(made, peaks)
    achieved, attainable = rate(cost, per_run), rate(cost, bound.seconds if bound else None)
    no_flops = "it computes no floating-point number" if cost is not None and not cost.flops > 0 else None
    why_near = unmeasured or (near.reason if near else None) or unbound
    return {
        "function": made.function,
        "executable": made.fingerprint or None,
        "executable_reason": None if made.fingerprint else made.cost_reason,
        "cost": _cost_document(cost, peaks) if cost else None,
        "cost_reason": None if cost else made.cost_reason,
        "runs": runs,
        "runs_reason": why_no_runs if runs is None else None,
        "seconds": spent,
        "seconds_reason": unmeasured or why_no_runs or NOT_SETTLED if spent is None else traced,
        "source": source,
        "source_reason": why_no_runs or unmeasured if source is None else None,
        "seconds_per_run": per_run,
        "seconds_per_run_reason": unmeasured or traced,
        "samples": made.sample_count,
        "profiled_runs": made.windows.runs,
        "profiled_seconds": made.windows.seconds,
        "bound_seconds": bound.seconds if bound else None,
        "bound_seconds_reason": unbound,
        "achieved_flops_per_second": achieved,
        "achieved_flops_per_second_reason": (
            traced if achieved is not None else unmeasured or no_flops or made.cost_reason
        ),
        "attainable_flops_per_second": attainable,
        "attainable_flops_per_second_reason": no_flops or unbound,
        "efficiency": near.value if near else None,
        "efficiency_reason": why_near or made.lower_bound_reason or traced,
        "bottleneck": executable_verdict(made, peaks).to_dict(),
        "memory": dict(made.memory),
        "memory_reason": None if made.memory else "the backend gave no memory analysis",
        "donatable_bytes": made.donatable_bytes,
        "donatable_bytes_reason": (
            None
            if made.donatable_bytes is not None
            else made.cost_reason or "arguments and outputs were not compared"
        ),
        "devices": made.devices,
    }


def executable_verdict(made: Executable, peaks: Peaks | None) -> bottleneck.Verdict:
    """Without a bound because a peak is missing the label is unknown; without a cost it is unmodelled."""
    if made.cost is not None and made.bound is None:
        return bottleneck.Verdict("unknown", 0.0, None, reason=bound_reason(made, peaks))
    told = verdict_of_operations(made)
    if told is not None:
        return told
    return bottleneck.of_executable(
        made.bound, made.seconds_per_run, made.sample_count, complete=made.is_modelled
    )


def bound_reason(made: Executable, peaks: Peaks | None) -> str | None:
    """Why there is no bound, or why it is a lower one."""
    if made.cost is None:
        return made.cost_reason
    if peaks is None:
        return "no backend has been found yet"
    if made.bound is None:
        return LET_GO
    if made.bound.seconds is None:
        return peaks.reason or made.bound.reason
    return made.bound.reason or made.lower_bound_reason


def _counted(made: Executable, why_no_runs: str | None) -> tuple[float | None, float | None, str | None]:
    """Runs, their device seconds, and whether all were counted (`watched`) or those in windows (`sampled`)."""
    if why_no_runs is None:
        timed = made.seconds_per_run is not None and (made.seconds > 0 or not made.runs)
        return made.runs, made.seconds if timed else None, "watched"
    if made.windows.runs > 0:
        return made.windows.runs, made.windows.seconds, "sampled"
    return None, None, None


def _cost_document(cost: Cost, peaks: Peaks | None) -> dict[str, Any]:
    document = (cost if peaks is None else run_on(cost, peaks)).to_dict()
    return document | {"intensity_reason": _why_no_intensity(cost)}


def _why_no_intensity(cost: Cost) -> str | None:
    return "it moves no byte of device memory" if cost.intensity is None else None
