"""The gauges of an executable."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.metrics.catalogue import executable_metrics
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.roofline_model.bounds import efficiency

GAUGES = (
    executable_metrics.EXECUTABLE_FLOPS,
    executable_metrics.EXECUTABLE_BYTES,
    executable_metrics.EXECUTABLE_INTENSITY,
    executable_metrics.EXECUTABLE_ACHIEVED,
    executable_metrics.EXECUTABLE_ATTAINABLE,
    executable_metrics.EXECUTABLE_EFFICIENCY,
    executable_metrics.EXECUTABLE_BOTTLENECK,
    executable_metrics.EXECUTABLE_MEMORY,
)


def fill_gauges(
    gauges: Mapping[str, dict[tuple[str, ...], float | None]],
    made: Executable,
    name: tuple[str, ...],
    verdict: Verdict,
) -> None:
    """Put its values under the labels `name` into `gauges`, which are by metric name."""
    per_run, cost, bound = made.seconds_per_run, made.work, made.bound
    if cost is not None:
        gauges[executable_metrics.EXECUTABLE_FLOPS.name][name] = cost.flops
        gauges[executable_metrics.EXECUTABLE_BYTES.name][name] = cost.bytes
        gauges[executable_metrics.EXECUTABLE_INTENSITY.name][name] = cost.intensity
        gauges[executable_metrics.EXECUTABLE_ACHIEVED.name][name] = rate(cost, per_run)
    if bound is not None:
        near = efficiency(bound, per_run).value if per_run else None
        gauges[executable_metrics.EXECUTABLE_ATTAINABLE.name][name] = rate(cost, bound.seconds)
        gauges[executable_metrics.EXECUTABLE_EFFICIENCY.name][name] = near
    if per_run is not None:
        gauges[executable_metrics.EXECUTABLE_BOTTLENECK.name][
            *name, verdict.label, verdict.runner_up or ""
        ] = 1.0
    for kind, amount in made.memory.items():
        gauges[executable_metrics.EXECUTABLE_MEMORY.name][*name, kind] = float(amount)


def rate(cost: Cost | None, elapsed: float | None) -> float | None:
    """FLOP/s; None without both, or where nothing is to be computed."""
    if cost is None or not cost.flops > 0 or elapsed is None or not elapsed > 0:
        return None
    return cost.flops / elapsed
