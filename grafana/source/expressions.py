"""PromQL of the panels: selectors that follow the variables, and the join that gives a series its run."""

from __future__ import annotations

from typing import Final

WHERE: Final = 'job=~"$job", instance=~"$instance"'
"""In every selector, so that the choice of processes holds everywhere."""

RUN_INFO: Final = f'jaxobs_run_info{{{WHERE}, run_id=~"$run"}}'

RANKED: Final = f'jaxobs_run_info{{{WHERE}, run_id=~"$run", rank!=""}}'
"""Those whose rank is known. It may be so only when there is a backend."""

RUN_INFO_NOW: Final = f"{RANKED} or on (job, instance) {RUN_INFO}"
"""Where the rank of a process is known, no series without: for a pushed job the Collector keeps both for five minutes."""

RUN_INFO_SEEN: Final = (
    f"last_over_time({RANKED}[$__range])"
    f" or on (job, instance, run, run_id, attempt) last_over_time({RUN_INFO}[$__range])"
)
"""The same over the chosen time, by run and restart: one port may have had several."""


def of_all_runs(expression: str) -> str:
    """`expression` whatever run is chosen."""
    return expression.replace(', run_id=~"$run"', "")


IN_LOOP: Final = 'loop=~"$loop"'
ON_DEVICE: Final = 'device=~"$device"'


def selected(metric: str, *matchers: str) -> str:
    """The series of `metric` in the chosen processes, and no others than `matchers` say."""
    return f"{metric}{{{', '.join((WHERE, *matchers))}}}"


def rate(metric: str, *matchers: str) -> str:
    """Growth of a counter a second."""
    return f"rate({selected(metric, *matchers)}[$__rate_interval])"


def grown(metric: str, *matchers: str) -> str:
    """Growth of a counter in the chosen time range. Prometheus extrapolates, so a count is rounded."""
    return f"increase({selected(metric, *matchers)}[$__range])"


def of_runs(expression: str, *labels: str) -> str:
    """`expression` for the chosen runs alone, with the labels `run`, `run_id` and `rank` beside its own.

    The run of a process is a series of its own, so at each moment a process has the run that it has then: two runs that
    follow each other on one port are two lines, and so are two of one name, by their ids. The maximum makes one series a
    process where it is scraped twice, or where it has one with its rank and one without; where the rank is asked for,
    these would be two.
    """
    given = labels or ("run", "rank")
    names = _with_id(", ".join(given))
    run = f"max by (job, instance, {names}) ({RUN_INFO_NOW if 'rank' in given else RUN_INFO})"
    return f"{expression} * on (job, instance) group_left ({names}) {run}"


def _with_id(labels: str) -> str:
    return labels.replace("run", "run, run_id", 1)


def by(aggregation: str, labels: str, expression: str) -> str:
    """`aggregation by (labels) (expression)`, over the chosen runs; `run`, the first of them, stands for its id too."""
    names = [name for name in ("run", "attempt", "rank", "host") if name in labels.replace(",", " ").split()]
    return f"{aggregation} by ({_with_id(labels)}) ({of_runs(expression, *(names or ['run']))})"


def mean_of_ranks(labels: str, expression: str) -> str:
    """Mean of `expression` over all ranks of a run, by `labels` as in `by`. A rank without a series has spent nothing."""
    ranks = f"count by (run, run_id) (max by (job, instance, run, run_id) ({RUN_INFO}))"
    return f"{by('sum', labels, expression)} / on (run, run_id) group_left () {ranks}"


RUN: Final = "{{run}} {{run_id}}"
"""How the line of a run is called."""

RANK: Final = RUN + " rank {{rank}}"
"""How the line of a process is called."""

DEVICE: Final = RANK + " device {{device}}"
"""How the line of a device is called."""


PROCESS: Final = "run, rank, instance"
"""Labels of a process, for `by`: where Prometheus reaches it, its page is, to which a click on its line leads."""


def of_process(metric: str, *labels: str) -> str:
    """A gauge of each process, and by these labels."""
    return by("max", ", ".join((PROCESS, *labels)), selected(metric))


def of_device(metric: str, *labels: str) -> str:
    """A gauge of each device, and by these labels."""
    return by("max", ", ".join((PROCESS, "device", *labels)), selected(metric, ON_DEVICE))


def quantile(share: float, histogram: str, labels: str, *matchers: str) -> str:
    """A quantile of what was observed lately in the chosen runs."""
    counted = by("sum", f"le, {labels}", rate(f"{histogram}_bucket", *matchers))
    return f"histogram_quantile({share:g}, {counted})"
