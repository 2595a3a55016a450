"""The series of loops, of what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.vocabulary.wall_time import COMPONENTS


def show_loop(name: str, view: LoopView, last_step: float | None, series: Series) -> None:
    """Bring the counters of steps and the gauges of one loop up to what is shown of it.

    `last_step`: when its last step ended, in Unix time; None where none has.
    """
    for metric, amount in (
        (loop_metrics.STEPS, view.steps),
        (loop_metrics.STEPS_FAILED, view.failed_steps),
        (loop_metrics.EXAMPLES, view.examples.value),
        (loop_metrics.TOKENS, view.tokens.value),
    ):
        if amount is not None:
            series.total(metric, (name,), float(amount))
    if last_step is not None:
        series.set(loop_metrics.LAST_STEP, (name,), last_step)
    series.set(loop_metrics.MFU, (name,), view.mfu.value)
    series.set(loop_metrics.HFU, (name,), view.hfu.value)
    for word in COMPONENTS:
        series.set(loop_metrics.BOTTLENECK, (name, word), view.bottleneck.shares.get(word))
    series.set(loop_metrics.BOTTLENECK_CONFIDENCE, (name,), view.bottleneck.confidence)


def show_bottlenecks(views: Mapping[str, LoopView], series: Series) -> None:
    """What limits each loop; what limited it before goes."""
    verdicts = {name: view.bottleneck for name, view in views.items()}
    series.replace(
        loop_metrics.BOTTLENECK_INFO,
        (((name, verdict.label, verdict.runner_up or ""), 1.0) for name, verdict in verdicts.items()),
    )
