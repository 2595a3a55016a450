"""Sets the gauges of executables from their views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.metrics.catalogue import executable_metrics
from jaxobs.derive.metrics.series import Labels, Series
from jaxobs.model.metrics import Metric

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


def show_executables(views: Iterable[ExecutableView], series: Series) -> None:
    """Set the gauges of these executables, and remove those of all others.

    Executables of the same content have the same labels, as where a function is made anew: the newest one whose runs
    were timed is shown, so that one that has not run yet hides nothing.
    """
    chosen: dict[Labels, ExecutableView] = {}
    for view in views:
        if view.labels not in chosen or view.seconds_per_run.value is not None:
            chosen[view.labels] = view
    values: dict[str, dict[Labels, float | None]] = {metric.name: {} for metric in GAUGES}
    for view in chosen.values():
        for metric, labels, value in _gauges(view):
            values[metric.name][view.labels + labels] = value
    for metric in GAUGES:
        series.replace(metric, values[metric.name].items())


def _gauges(view: ExecutableView) -> Iterator[tuple[Metric, Labels, float | None]]:
    """The gauges of one executable: metric, labels after those of the executable, and value."""
    if view.cost.value is not None:
        cost = view.cost.value.cost
        yield executable_metrics.EXECUTABLE_FLOPS, (), cost.flops
        yield executable_metrics.EXECUTABLE_BYTES, (), cost.bytes
        yield executable_metrics.EXECUTABLE_INTENSITY, (), cost.intensity
    yield executable_metrics.EXECUTABLE_ACHIEVED, (), view.achieved_flops_per_second.value
    yield executable_metrics.EXECUTABLE_ATTAINABLE, (), view.attainable_flops_per_second.value
    yield executable_metrics.EXECUTABLE_EFFICIENCY, (), view.efficiency.value
    if view.seconds_per_run.value is not None:
        limits = view.bottleneck.label, view.bottleneck.runner_up or ""
        yield executable_metrics.EXECUTABLE_BOTTLENECK, limits, 1.0
    for kind, amount in (view.memory.value or {}).items():
        yield executable_metrics.EXECUTABLE_MEMORY, (kind,), float(amount)
