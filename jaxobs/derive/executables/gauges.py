"""The gauges of an executable."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.metrics import catalogue as core
from jaxobs.model.cost import Cost
from jaxobs.roofline.bottleneck import Verdict
from jaxobs.roofline.bounds import efficiency

GAUGES = (
    core.EXECUTABLE_FLOPS,
    core.EXECUTABLE_BYTES,
    core.EXECUTABLE_INTENSITY,
    core.EXECUTABLE_ACHIEVED,
    core.EXECUTABLE_ATTAINABLE,
    core.EXECUTABLE_EFFICIENCY,
    core.EXECUTABLE_BOTTLENECK,
    core.EXECUTABLE_MEMORY,
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
        gauges[core.EXECUTABLE_FLOPS.name][name] = cost.flops
        gauges[core.EXECUTABLE_BYTES.name][name] = cost.bytes
        gauges[core.EXECUTABLE_INTENSITY.name][name] = cost.intensity
        gauges[core.EXECUTABLE_ACHIEVED.name][name] = rate(cost, per_run)
    if bound is not None:
        near = efficiency(bound, per_run).value if per_run else None
        gauges[core.EXECUTABLE_ATTAINABLE.name][name] = rate(cost, bound.seconds)
        gauges[core.EXECUTABLE_EFFICIENCY.name][name] = near
    if per_run is not None:
        gauges[core.EXECUTABLE_BOTTLENECK.name][*name, verdict.label, verdict.runner_up or ""] = 1.0
    for kind, amount in made.memory.items():
        gauges[core.EXECUTABLE_MEMORY.name][*name, kind] = float(amount)


def rate(cost: Cost | None, elapsed: float | None) -> float | None:
    """FLOP/s; None without both, or where nothing is to be computed."""
    if cost is None or not cost.flops > 0 or elapsed is None or not elapsed > 0:
        return None
    return cost.flops / elapsed
