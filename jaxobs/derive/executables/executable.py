"""One executable: what is known of it, and how long the device takes for one run."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import MEASURED, NOT_ANALYSED, Cost, OperationCost, inexact_for
from jaxobs.model.events import memory_need
from jaxobs.model.figure import Figure
from jaxobs.model.peak_memory import PeakMemory
from jaxobs.roofline_model.bottleneck import HALF_SURE_RUNS, Modelled, Verdict, confidence, margin
from jaxobs.roofline_model.bounds import Bound, bound_time, total_bound
from jaxobs.roofline_model.traced import Operation, ProfiledModule

SAMPLES_KEPT = 21
"""Clean runs whose median is an executable's device time: enough to outlive a few disturbed ones, few enough to follow a
change within a minute."""

TOLERANCE = 0.15
"""Share to which the duration of a clean run must be known; else it tells only how long one takes at most."""

ENOUGH_SAMPLES = 5
"""Clean runs from which on their median caps the time that windows tell: tracing makes small operations longer."""

OF_A_WINDOW = SAMPLES_KEPT // 3
"""What a profiler window counts for beside spacings of a host that was ahead: after three windows, or SAMPLES_KEPT such
spacings, without a clean run the clean ones are let go of. While the host is ahead none comes, so they are of before."""

WHOLE_RUNS = 2
"""Whole runs that a profiler window must hold to tell how long one takes: of a run that is longer than the window, or
nearly, a trace holds pieces that look like runs."""

BEFORE, BEFORE_WHERE_RUNS_DIFFER = 0.5, 0.95
"""Weight of what earlier profiler windows showed beside a new one. The first averages over three windows: enough to
outweigh a disturbed one, few enough to follow a device that is throttled, or a machine that others begin to use, within
minutes. The second averages over forty, as few windows may hold none of the longer runs: (1 + w) / (1 - w)."""

UNEVEN = 2.0
"""Of an executable whose runs may differ they do where the longest sample is more than this many times the shortest.
Where a tenth of the runs took eighteen times as long as the others, the device seemed idle for half of the time in which
it was busy throughout."""

CUT_RUN = 0.5
"""Share of a run's operations that lie in the window where its edge cuts the run, on average: runs are cut as often at
the window's beginning as at its end, and at any point of the run."""

UNREAD: Figure[PeakMemory] = Figure(None, NOT_ANALYSED)


class CleanRun(NamedTuple):
    """The seconds of a run that began on an idle device, and by how many they may be off."""

    seconds: float
    error: float

    @property
    def is_known(self) -> bool:
        """Whether it is known how long the run took, and not only how long it took at most."""
        return self.error <= TOLERANCE * self.seconds


@dataclass(slots=True)
class Windows:
    """What profiler windows saw of an executable, on one device."""

    runs: float = 0.0
    seconds: float = 0.0
    """Seconds of runs, from first operation to the end of the last; of operations where traces show no single runs."""
    timed_runs: float = 0.0
    timed_seconds: float = 0.0
    """The same two of late, of windows that held several whole runs."""
    labels: dict[str, float] = field(default_factory=dict)
    """Device seconds of late by the component that they are charged to."""
    executions: dict[str, float] = field(default_factory=dict)
    """Executions of late by operation, on all devices."""
    runs_counted: float = 0.0
    """Runs on all devices, to divide `executions` by."""

    @property
    def seconds_per_run(self) -> float | None:
        """Seconds of one traced run of late; None where no window held several whole ones."""
        return self.timed_seconds / self.timed_runs if self.timed_runs > 0 else None


@dataclass(slots=True)
class Executable:
    """State of one executable; `number` is the probe's, `fingerprint` the stable hash of its content."""

    number: int
    function: str
    memory: Mapping[str, int]
    devices: int
    donatable_bytes: float | None = None
    peak_memory: Figure[PeakMemory] = UNREAD
    iterations: int | None = None
    """Iterations of the loop in which a run does most of its work."""
    operations: float | None = None
    """Operations that a run executes, those of a loop in each of its iterations."""
    cost: Cost | None = None
    bound: Bound | None = None
    title: str = ""
    """Its function, distinguished from others of that name."""
    fingerprint: str = ""
    cost_reason: str = NOT_ANALYSED
    runs: int = 0
    """All known runs, including those that may yet turn out to belong to a loop."""
    untimed: int = 0
    """Runs whose seconds are not counted yet, as none was timed or they are outside loops."""
    room: float = 0.0
    """Seconds that these had; infinite where that is not known."""
    seconds: float = 0.0
    share: float = 1.0
    """For how much of the time of its runs, as they were timed, the loop that ran it last had room of late."""
    clean_runs: deque[CleanRun] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    spacings: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    """Seconds per run by the steps of loops that run nothing else: upper bounds of what a run takes. Each with whether
    the host of these steps ran ahead, so that it is what a run takes and not only a bound."""
    told_since: int = 0
    """How much else has told what a run takes since the newest clean one."""
    sample_count: int = 0
    windows: Windows = field(default_factory=Windows)
    measured: Cost | None = None
    """The cost with measured repetitions of its loops, where the module does not state them."""

    @property
    def work(self) -> Cost | None:
        """The known work of one run: the module's cost, with measured repetitions where the module states none."""
        return self.measured or self.cost

    @property
    def is_analysed(self) -> bool:
        """Whether its analysis is over: its cost is known, or cannot be known."""
        return bool(self.fingerprint)

    @property
    def samples(self) -> list[float]:
        """Seconds of the clean runs whose duration is known."""
        return [run.seconds for run in self.clean_runs if run.is_known]

    @property
    def at_most(self) -> list[float]:
        """Seconds that the other clean runs took at most."""
        return [run.seconds + run.error for run in self.clean_runs if not run.is_known]

    @property
    def clean_seconds(self) -> float | None:
        """The median of the clean runs whose duration is known; None where they do not tell what a run takes.

        Those that took less by their bounds, as most short ones do, vote against them: what is known then is of runs that
        were disturbed. A bound above tells nothing, as of a run that was asked at the end of its turn alone. Where most
        are so, a few that are known may be the longest ones.
        """
        samples, at_most = self.samples, self.at_most
        if not samples or self.differs or len(samples) < min(ENOUGH_SAMPLES, len(at_most) + 1):
            return None
        middle = statistics.median(samples)
        shorter = sum(most < (1 - TOLERANCE) * middle for most in at_most)
        return middle if len(samples) > shorter else None

    @property
    def seconds_per_run(self) -> float | None:
        """Device seconds of one run; None where nothing tells.

        Windows tell it, else clean runs, else the spacing of steps. Clean runs and the spacing cap what windows tell. Few
        clean runs tell less than many steps of a host that was ahead: the first of all may be the only one.
        """
        traced = self.windows.seconds_per_run
        spaced = statistics.median(each for each, _ in self.spacings) if self.spacings else math.inf
        ahead = [each for each, is_ahead in self.spacings if is_ahead]
        clean, many = self.clean_seconds, len(self.samples) >= ENOUGH_SAMPLES
        if traced is not None:
            return min(traced, spaced, clean if clean and many else math.inf)
        if clean is not None and (many or not ahead):
            return min(clean, spaced)
        return min(spaced, statistics.median(ahead)) if ahead else None

    def told_otherwise(self, count: int) -> None:
        """Note that a window, or spacings of a host that was ahead, told what a run takes."""
        self.told_since += count
        if self.told_since >= SAMPLES_KEPT:
            self.clean_runs.clear()

    @property
    def most_seconds_per_run(self) -> float:
        """Device seconds that a run takes at most; infinite where nothing tells."""
        return statistics.median(self.at_most or [math.inf])

    @property
    def doubt(self) -> float:
        """Share by which the time of a run may be off: the standard error of the median of clean runs, relative to it.

        For a normal distribution that is 0.93 of the distance between the quartiles over the root of the number of
        samples (1.2533 σ / √n, with 1.349 σ between the quartiles). With few samples it is the largest of their errors,
        and 0 without any.
        """
        ordered = sorted(self.samples)
        count = len(ordered)
        if count < ENOUGH_SAMPLES:
            return max((run.error / run.seconds for run in self.clean_runs if run.is_known), default=0.0)
        apart = ordered[3 * count // 4] - ordered[count // 4]
        return 0.93 * apart / math.sqrt(count) / statistics.median(ordered)

    @property
    def may_differ(self) -> bool:
        """Whether its runs may do more work than the cost says, as its loops or branches may; not only unknown work."""
        cost = self.cost
        return cost is not None and not cost.exact and bool(cost.inexact_reasons or not cost.unmodelled)

    @property
    def differs(self) -> bool:
        """Whether its runs may differ, and samples show that they do."""
        return self.may_differ and bool(samples := self.samples) and max(samples) > UNEVEN * min(samples)

    @property
    def modelled(self) -> Modelled:
        """What is known of the work of a run; it is complete where the bound has all that could dominate its time."""
        bound, work = self.bound, self.work
        # How much of its time goes to collectives cannot be seen from outside.
        is_exact = work is not None and inexact_reason(work) is None and not work.collective_bytes
        return Modelled(bound, bound is not None and is_exact and bound.knows_large_parts, self.operations)

    @property
    def working_set(self) -> float | None:
        """Bytes that it touches on one device, by XLA's memory analysis: all that it needs but its code."""
        return float(memory_need(self.memory) - self.memory.get("code", 0)) if self.memory else None


def inexact_reason(cost: Cost | None) -> str | None:
    """Why a cost, and a bound time from it, is inexact; None where it is exact, or has measured repetitions."""
    if cost is None:
        return None
    reasons = [reason for reason in cost.why_inexact() if reason != MEASURED]
    if not reasons and (cost.exact or cost.inexact_reasons):
        return None
    return inexact_for(reasons or ("its cost is",))


def absorb(
    executable: Executable,
    ran: ProfiledModule,
    operations: Iterable[Operation],
    costs: Sequence[OperationCost] | None,
) -> None:
    """Add a window's runs of the executable, and its module's operations; nothing where the window reports no runs.

    `costs` are the costs of its operations; without them the measured cost stays as it is.

    Where runs are alike, the median of whole runs gives their time, as that of clean runs does: a disturbed run takes
    twice as long on a CPU. Where they may differ, it is their mean, and longer ones are cut more often by the window's
    edges, so that whole runs alone are too short: by a fifth where each fourth run takes 10 ms and the others 1 ms, in
    windows of 26 ms. Then cut runs are counted, too.
    """
    if not ran.runs or not ran.devices:
        return
    seen = executable.windows
    with_cut_ones = ran.runs + CUT_RUN * ran.cut_runs
    if ran.run_seconds is not None and executable.may_differ:
        runs, spent = with_cut_ones, ran.run_seconds + ran.cut_seconds
    else:
        runs, spent = ran.runs, ran.work.seconds if ran.run_seconds is None else ran.run_seconds
    seen.runs += runs / ran.devices
    seen.seconds += spent / ran.devices
    if ran.runs >= WHOLE_RUNS * ran.devices:
        executable.told_otherwise(OF_A_WINDOW)
        usual = None if executable.may_differ else ran.usual_seconds
        weight = BEFORE_WHERE_RUNS_DIFFER if executable.may_differ else BEFORE
        seen.timed_runs = weight * seen.timed_runs + runs / ran.devices
        seen.timed_seconds = weight * seen.timed_seconds + (spent if usual is None else usual) / ran.devices
    seen.runs_counted = BEFORE_WHERE_RUNS_DIFFER * seen.runs_counted + with_cut_ones
    for before in (seen.labels, seen.executions):
        before.update((name, BEFORE_WHERE_RUNS_DIFFER * amount) for name, amount in before.items())
    for operation in operations:
        spent = operation.work.seconds / ran.devices
        seen.labels[operation.label] = seen.labels.get(operation.label, 0.0) + spent
        seen.executions[operation.name] = seen.executions.get(operation.name, 0.0) + operation.executions
    executable.measured = _measured_cost(executable, costs) or executable.measured


def bind(executable: Executable, peaks: Peaks, costs: Sequence[OperationCost] | None) -> None:
    """Set the bound time of one run. Without the costs of its operations it stays as it is."""
    if costs is None:
        return
    means = _means(executable) if executable.measured is not None else {}
    bounds = (bound_time(cost, peaks, executable.working_set) for cost in _costs_of_a_run(costs, means))
    executable.bound = total_bound(bounds)


def verdict_of_operations(executable: Executable) -> Verdict | None:
    """The bottleneck by the components that the executable's traced operations were charged to; None without any."""
    total = sum(executable.windows.labels.values())
    if total <= 0:
        return None
    ranked = sorted(executable.windows.labels.items(), key=lambda item: -item[1])
    shares = {word: amount / total for word, amount in ranked}
    first, *others = shares
    second = others[0] if others else None
    lead = margin(shares[first], shares[second] if second else 0.0)
    explained = 1.0 - shares.get("unknown", 0.0) - shares.get("unmodelled", 0.0)
    sure = confidence(lead, executable.windows.runs, HALF_SURE_RUNS, explained)
    reason = "its bound time is not known" if first in {"unknown", "unmodelled"} else None
    return Verdict(first, sure, second, shares, reason)


def _measured_cost(executable: Executable, costs: Sequence[OperationCost] | None) -> Cost | None:
    """The cost with the mean repetitions seen in windows; None where they were not, or the module's figures are exact."""
    if costs is None or not executable.may_differ or not executable.windows.runs_counted:
        return None
    means = _means(executable)
    if any(each.executions and each.once.flops and each.name not in means for each in costs):
        return None  # each run executes it, so it is hidden inside another operation, and so is how often it is repeated
    cost = sum(_costs_of_a_run(costs, means), Cost())
    return replace(cost, exact=False, inexact_reasons=(MEASURED, *cost.inexact_reasons))


def _costs_of_a_run(costs: Sequence[OperationCost], means: Mapping[str, float]) -> Iterator[Cost]:
    """The cost of each operation in one run: executed as often as on average where that was seen, else as compiled."""
    return (operation.once.scaled(means.get(operation.name, operation.executions)) for operation in costs)


def _means(executable: Executable) -> dict[str, float]:
    """The mean number of executions per run, for each operation that was seen."""
    seen = executable.windows
    return {name: count / seen.runs_counted for name, count in seen.executions.items()}
