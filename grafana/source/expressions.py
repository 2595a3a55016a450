"""PromQL of the panels: selectors that follow the variables, and the join that gives a series its run."""

from __future__ import annotations

from typing import Final

WHERE: Final = 'job=~"$job", instance=~"$instance"'
"""In every selector, so that the choice of processes holds everywhere."""

RUN_INFO: Final = f'jaxobs_run_info{{{WHERE}, run=~"$run"}}'

IN_LOOP: Final = 'loop=~"$loop"'
ON_DEVICE: Final = 'device=~"$device"'


def selected(metric: str, *matchers: str) -> str:
    """The series of `metric` in the chosen processes, and no others than `matchers` say."""
    return f"{metric}{{{', '.join((WHERE, *matchers))}}}"


def rate(metric: str, *matchers: str) -> str:
    """Growth of a counter a second."""
    return f"rate({selected(metric, *matchers)}[$__rate_interval])"


def of_runs(expression: str, *labels: str) -> str:
    """`expression` for the chosen runs alone, with the labels `run` and `rank` beside its own.

    The run of a process is a series of its own, so at each moment a process has the run that it has then: two runs that
    follow each other on one port are two lines. The maximum makes one series a process where it is scraped twice.
    """
    names = ", ".join(labels or ("run", "rank"))
    run = f"max by (job, instance, {names}) ({RUN_INFO})"
    return f"{expression} * on (job, instance) group_left ({names}) {run}"


def by(aggregation: str, labels: str, expression: str) -> str:
    """`aggregation by (labels) (expression)`, over the chosen runs."""
    names = [name for name in ("run", "attempt", "rank", "host") if name in labels.replace(",", " ").split()]
    return f"{aggregation} by ({labels}) ({of_runs(expression, *(names or ['run']))})"


def quantile(share: float, histogram: str, labels: str, *matchers: str) -> str:
    """A quantile of what was observed lately in the chosen runs."""
    counted = by("sum", f"le, {labels}", rate(f"{histogram}_bucket", *matchers))
    return f"histogram_quantile({share:g}, {counted})"
