"""Metrics on no panel, and why."""

from __future__ import annotations

from typing import Final

NOT_SHOWN: Final[dict[str, str]] = {
    "jaxobs_bottleneck_info": (
        "a label cannot be averaged over ranks: panels take the largest of jaxobs_bottleneck_ratio instead"
    ),
    "jaxobs_hangs_total": "0 in nearly every run: the alert JaxRankHangs stands in the list of alerts",
    "jaxobs_slowdowns_total": "0 in nearly every run: the alert JaxStepsSlower stands in the list of alerts",
    "jaxobs_recorded_leaps_total": "0 in most runs: the alert JaxValueLeaps stands in the list of alerts",
    "jaxobs_recorded_not_finite_total": (
        "0 in nearly every run: the alert JaxValueNotFinite stands in the list of alerts, and the curve of the value ends"
    ),
}
