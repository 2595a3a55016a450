"""Annotations: moments that explain a change of any panel, marked on all of them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from grafana.source.expressions import RUN_INFO, by, selected
from grafana.source.variables import METRICS
from jaxobs.vocabulary.words import Component

HOUR: Final = "1h"
"""Time for which a series may be missing, as where a host was out of reach, and is the same when it is there again."""


class _Written(model.AnnotationQuery):
    """With what Grafana's data source for Prometheus reads, and Grafana's types do not have."""

    text: str

    def to_json(self) -> dict[str, object]:
        own = {"titleFormat": self.name, "textFormat": self.text, "step": "15s"}
        return {**super().to_json(), **own}


@dataclass(frozen=True, slots=True)
class Annotation(Builder[model.AnnotationQuery]):
    """One kind of moment."""

    name: str
    text: str
    """Of one of them, with the labels of its series."""
    expression: str
    """Has a value at each step in which it happens; successive ones are one stretch."""
    colour: str
    enabled: bool = True
    """Whether it is shown before the viewer asks for it, by its switch at the top of the dashboard."""

    def build(self) -> model.AnnotationQuery:
        """As Grafana reads it."""
        made = _Written(self.name, METRICS, self.enabled, icon_color=self.colour, expr=self.expression)
        made.text = self.text
        return made


def _grew(labels: str, metric: str, *matchers: str) -> str:
    """Where a counter grew within a step. Its first value counts too, which `increase()` never sees.

    A process that follows another on one port within the hour is marked once it has counted more than that one.
    """
    series = selected(metric, *matchers)
    here = by("sum", labels, series)
    before = by("sum", labels, f"last_over_time({series}[{HOUR}] offset $__interval)")
    return f"({here}) - ({before} or 0 * ({here})) > 0"


def _began(labels: str, series: str) -> str:
    """Where there is a series that was not there before."""
    return (
        f"max by ({labels}) ({series})"
        f" unless on ({labels}) max by ({labels}) (last_over_time({series}[{HOUR}] offset $__interval))"
    )


_EVALUATION: Final = '=~"(?i).*(eval|valid|test).*"'

ANNOTATIONS: Final = (
    Annotation(
        "Recompiled", "{{run}} {{run_id}}: {{function}}, {{cause}}",
        _grew("run, function, cause", "jaxobs_recompilations_total"), Component.COMPILE.dark,
    ),
    Annotation("Started", "{{run}} {{run_id}} {{attempt}}", _began("run, run_id, attempt", RUN_INFO), "green"),
    Annotation(
        "Alert", "{{alertname}} {{run}} {{run_id}} {{rank}}",
        'max by (alertname, run, run_id, rank) (ALERTS{alertname=~"Jax.+", alertstate="firing", run_id=~"$run"})', "red",
    ),
    Annotation(
        "Checkpoint", "{{run}} {{run_id}}",
        _grew("run", "jaxobs_run_seconds_total", 'category="checkpoint"'), Component.CHECKPOINT.dark,
        enabled=False,
    ),
    Annotation(
        "Evaluation", "{{run}} {{run_id}}: {{loop}}{{phase}}",
        _grew("run, loop", "jaxobs_steps_total", f"loop{_EVALUATION}") + " or "
        + _grew("run, phase", "jaxobs_phase_seconds_total", f"phase{_EVALUATION}"), "blue",
        enabled=False,
    ),
)  # fmt: skip
