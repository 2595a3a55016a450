"""Expressions of the roofline: executables and the largest operations, and the figures of each."""

from __future__ import annotations

from typing import Final

from grafana.source.expressions import by, grown, selected

EXECUTABLE: Final = "run, function, executable"
OPERATION: Final = "run, function, operation, category"
LARGEST: Final = 50
"""Operations on the chart: more are a cloud; jaxobs keeps the largest few hundred."""

NO_WINDOWS: Final = "No profiler window has ended yet, or `JAXOBS_PROFILE_BUDGET_RATIO=0` opens none."
NOT_TIMED: Final = "No watched function has been timed yet: `obs.watch(train_step)`."


def executable(metric: str) -> str:
    """A gauge of each executable, mean of the ranks."""
    return by("avg", EXECUTABLE, selected(metric))


def operation(quantity: str) -> str:
    """A total over all profiler windows: ratios of totals are true also of what was seen in one window alone."""
    return by("sum", OPERATION, selected(f"jaxobs_operation_sampled_{quantity}_total"))


TIME: Final = by("sum", EXECUTABLE, grown("jaxobs_executable_seconds_total"))
POINTS: Final = {
    "intensity": executable("jaxobs_executable_intensity_flops_per_byte"),
    "achieved": executable("jaxobs_executable_achieved_flops_per_second"),
    "efficiency": executable("jaxobs_executable_efficiency_ratio"),
    "seconds": TIME,
}
DRAWN: Final = f"({POINTS['intensity']}) > 0 and ({POINTS['achieved']}) > 0"
"""A point has both coordinates, and a logarithm of each."""

OPERATION_SECONDS: Final = f"topk({LARGEST}, {operation('seconds')})"
OPERATION_POINTS: Final = {
    "intensity": f"{operation('flops')} / ({operation('bytes')} > 0)",
    "achieved": f"{operation('flops')} / ({operation('seconds')} > 0)",
    "seconds": operation("seconds"),
}
DRAWN_OPERATIONS: Final = f"({operation('flops')} > 0 and {operation('bytes')} > 0 and {OPERATION_SECONDS})"
