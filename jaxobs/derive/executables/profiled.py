"""Adds what a profiler window saw of an executable to its state: runs, device time, and how often its loops ran."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jaxobs.derive.executables.executable import MEASURED, WINDOWS_COMPARED, Executable
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost, OperationCost
from jaxobs.roofline_model.bottleneck import HALF_SURE_RUNS, Verdict, confidence, margin
from jaxobs.roofline_model.bounds import bound_time, total_bound
from jaxobs.roofline_model.traced import Operation, ProfiledModule

CUT_RUN = 0.5
"""Share of a run's operations that lie in the window where its edge cuts the run, on average: runs are cut as often at
the window's beginning as at its end, and at any point of the run."""


def absorb(
    executable: Executable,
    ran: ProfiledModule,
    operations: Iterable[Operation],
    costs: Sequence[OperationCost] | None,
) -> None:
    """Add a window's runs of the executable, and its module's operations; nothing where the window reports no runs.

    `costs` are the costs of its operations; without them the measured cost stays as it is.

    Where runs are alike, whole runs alone give their time. Where they may differ, longer ones are cut more often by the
    window's edges, so that whole runs alone are too short: by a fifth where each fourth run takes 10 ms and the others
    1 ms, in windows of 26 ms. Then cut runs are counted, too.
    """
    if not ran.runs or not ran.devices:
        return
    seen = executable.windows
    if not seen.runs:
        executable.spacings.clear()  # where steps run several executables, samples alone shared out the spacings
    with_cut_ones = ran.runs + CUT_RUN * ran.cut_runs
    if ran.run_seconds is not None and executable.may_differ:
        runs, spent = with_cut_ones, ran.run_seconds + ran.cut_seconds
    else:
        runs, spent = ran.runs, ran.work.seconds if ran.run_seconds is None else ran.run_seconds
    seen.runs += runs / ran.devices
    seen.seconds += spent / ran.devices
    if ran.run_seconds is not None:
        sampled = statistics.median(executable.samples) if executable.samples else None
        seen.beside = (*seen.beside, (spent / runs, sampled))[-WINDOWS_COMPARED:]
    seen.runs_counted += with_cut_ones
    for operation in operations:
        seen.labels[operation.label] += operation.work.seconds / ran.devices  # type: ignore[assignment]
        seen.executions[operation.name] += operation.executions
    executable.measured = _measured_cost(executable, costs) or executable.measured


def bind(executable: Executable, peaks: Peaks, costs: Sequence[OperationCost] | None) -> None:
    """Set the bound time of one run. Without the costs of its operations it stays as it is."""
    if costs is None:
        return
    means = _means(executable) if executable.measured is not None else {}
    executable.bound = total_bound(
        bound_time(cost, peaks, executable.working_set) for cost in _costs_of_a_run(costs, means)
    )


def verdict_of_operations(executable: Executable) -> Verdict | None:
    """The bottleneck by the components that the executable's traced operations were charged to; None without any."""
    total = sum(executable.windows.labels.values())
    if total <= 0:
        return None
    shares = {word: amount / total for word, amount in executable.windows.labels.most_common()}
    words = list(shares)
    first, second = words[0], words[1] if len(words) > 1 else None
    lead = margin(shares[first], 0.0 if second is None else shares[second])
    explained = 1.0 - shares.get("unknown", 0.0) - shares.get("unmodelled", 0.0)
    sure = confidence(lead, executable.windows.runs, HALF_SURE_RUNS, explained)
    reason = "its bound time is not known" if first in {"unknown", "unmodelled"} else None
    return Verdict(first, sure, second, shares, reason)


def _measured_cost(executable: Executable, costs: Sequence[OperationCost] | None) -> Cost | None:
    """The cost with the mean repetitions seen in windows; None where none were, or the module's figures are exact."""
    if (
        costs is None
        or executable.cost is None
        or executable.cost.exact
        or not executable.windows.runs_counted
    ):
        return None
    cost = sum(_costs_of_a_run(costs, _means(executable)), Cost())
    return dataclasses.replace(cost, exact=False, inexact_reasons=(MEASURED, *cost.inexact_reasons))


def _costs_of_a_run(costs: Sequence[OperationCost], means: Mapping[str, float]) -> Iterator[Cost]:
    """The cost of each operation in one run: executed as often as on average where that was seen, else as compiled."""
    return (operation.once.scaled(means.get(operation.name, operation.executions)) for operation in costs)


def _means(executable: Executable) -> dict[str, float]:
    """The mean number of executions per run, for each operation that was seen."""
    return {
        name: count / executable.windows.runs_counted for name, count in executable.windows.executions.items()
    }
