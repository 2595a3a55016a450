"""A comparison as plain data, for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from jaxobs.report.comparison.finding import Comparison, StepTime
from jaxobs.report.comparison.noise import factor
from jaxobs.report.comparison.step_time import verdict


def plain(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain data: step times with their factors, findings and tables.

    A factor that is not known is None, with its reason.
    """
    return {
        "before": comparison.before,
        "after": comparison.after,
        "step_times": [_step_time(time) for time in comparison.step_times],
        "findings": [{**asdict(finding)} for finding in comparison.findings],
        "tables": {title: [asdict(row) for row in rows] for title, rows in comparison.tables.items()},
        "not_compared": list(comparison.not_compared),
    }


def _step_time(time: StepTime) -> dict[str, Any]:
    change = time.change
    return {
        "loop": time.loop,
        "before_seconds": time.before,
        "after_seconds": time.after,
        "factor": None if change is None else factor(change.estimate),
        "factor_low": None if change is None else factor(change.low),
        "factor_high": None if change is None else factor(change.high),
        "factor_reason": time.reason or None,
        "verdict": verdict(time),
    }
