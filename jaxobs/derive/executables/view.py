"""What is shown of executables: which ones, and each figure of theirs, or why it is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jaxobs.derive.executables.executable import (
    ENOUGH_SAMPLES,
    TOLERANCE,
    Executable,
    inexact_reason,
    verdict_of_operations,
)
from jaxobs.derive.executables.registry import LET_GO, Executables
from jaxobs.derive.series import Heaviest
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.model.figure import Figure, figure
from jaxobs.roofline_model import bottleneck
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.roofline_model.bounds import efficiency, run_on
from jaxobs.vocabulary.text import OTHER
from jaxobs.vocabulary.units import count

LISTED = 300
"""Most executables in a snapshot: an entry takes 30 µs and 1.4 kB (measured)."""

TRACED = "of runs that the profiler traced, which takes up to 0.7 µs an operation longer (measured on a CPU)"
FEW_TRACED = f"{TRACED}; of fewer than 20 runs, so too long if other programs disturbed most of them"
"""The notes on times that come from profiler windows alone."""

FEW_RUNS = 20
"""Where a third of the runs are disturbed, as on two processors that also do other things, so are most of seven in a
sixth of cases, and most of twenty in a twenty-fifth (binomial)."""

OF_KIN = "of an executable of the same function and sizes: no run of this one was timed"

CUT = "cut to what the loop had time for: its runs, as they were timed, would take longer than its steps"

NOT_TIMED = (
    "no run has been timed: none began on an idle device while it was watched, "
    "and no profiler window held two of them"
)
TOO_SHORT = "its runs are too short, or met too seldom, to be timed from outside, and no profiler window held two of them"
TOO_DIFFERENT = (
    "its runs take too different times for some to tell of all, and no profiler window was long enough yet"
)

NOT_SETTLED = "no step that it ran in has ended yet"


@dataclass(frozen=True, slots=True)
class ExecutableView:
    """The figures of one executable; seconds and bytes are those of one device."""

    function: str
    executable: Figure[str]
    """The fingerprint of its content."""
    cost: Figure[Cost]
    """Of one run on one device, with the element types that the device runs it in."""
    runs: Figure[float]
    seconds: Figure[float]
    source: Figure[str]
    """Whether all runs were counted (`watched`), or those in profiler windows (`sampled`)."""
    seconds_per_run: Figure[float]
    samples: int
    profiled_seconds: float
    bound_seconds: Figure[float]
    achieved_flops_per_second: Figure[float]
    attainable_flops_per_second: Figure[float]
    efficiency: Figure[float]
    bottleneck: Verdict
    memory: Figure[Mapping[str, int]]
    """Bytes by kind, of XLA's memory analysis."""
    donatable_bytes: Figure[float]
    devices: int

    @property
    def labels(self) -> tuple[str, str]:
        """Labels of its series."""
        return self.function, self.executable.value or ""


def executable_view(
    executable: Executable, per_run: float | None, why_no_runs: str | None, peaks: Peaks | None
) -> ExecutableView:
    """What is shown of the executable, a run of which takes `per_run` seconds, as it was timed.

    `why_no_runs`: why not all its runs are counted; None where they are.
    """
    cost, bound = executable.work, executable.bound
    timed, per_run = per_run, per_run and per_run * executable.share
    near = efficiency(bound, per_run) if bound is not None and per_run is not None else None
    runs, spent, source = _counted(executable, per_run, why_no_runs)
    not_timed = TOO_DIFFERENT if executable.differs else TOO_SHORT if executable.at_most else NOT_TIMED
    unmeasured = None if per_run is not None else why_no_runs or not_timed
    is_traced = timed is not None and timed == executable.windows.seconds_per_run
    tracing = FEW_TRACED if executable.windows.timed_runs < FEW_RUNS else TRACED
    traced = tracing if is_traced else OF_KIN if executable.seconds_per_run != timed else None
    clean = len(executable.samples) if timed == executable.clean_seconds else ENOUGH_SAMPLES
    traced = traced or (f"of {count(clean, 'run')} alone" if 0 < clean < ENOUGH_SAMPLES else None)
    traced = CUT if executable.share < 1 - TOLERANCE else traced
    unbound = bound_reason(executable, peaks)
    achieved = _rate(cost, per_run)
    no_flops = "it computes no floating-point number" if cost is not None and not cost.flops > 0 else None
    if no_flops and cost is not None and cost.unmodelled:
        no_flops = inexact_reason(executable.work)
    why_achieved = traced if achieved is not None else unmeasured or no_flops or executable.cost_reason
    not_compared = executable.cost_reason or "arguments and outputs were not compared"
    why_near = unmeasured or (near.reason if near else None) or unbound
    return ExecutableView(
        executable.function,
        figure(executable.fingerprint or None, executable.cost_reason),
        figure(cost if peaks is None or cost is None else run_on(cost, peaks), executable.cost_reason),
        figure(runs, why_no_runs),
        Figure(spent, unmeasured or why_no_runs or NOT_SETTLED if spent is None else traced),
        figure(source, why_no_runs or unmeasured),
        Figure(per_run, unmeasured or traced),
        executable.sample_count,
        executable.windows.seconds,
        Figure(bound.seconds if bound else None, unbound),
        Figure(achieved, why_achieved),
        Figure(_rate(cost, bound.seconds if bound else None), no_flops or unbound),
        Figure(near.value if near else None, why_near or inexact_reason(executable.work) or traced),
        _verdict(executable, per_run, peaks),
        Figure(executable.memory, None if executable.memory else "the backend gave no memory analysis"),
        figure(executable.donatable_bytes, not_compared),
        executable.devices,
    )


def _verdict(executable: Executable, per_run: float | None, peaks: Peaks | None) -> Verdict:
    """The bottleneck: unknown where there is a cost but no bound, as a peak is missing; unmodelled without a cost."""
    if executable.cost is not None and executable.bound is None:
        return Verdict("unknown", 0.0, None, reason=bound_reason(executable, peaks))
    samples = max(executable.sample_count, len(executable.spacings))
    by_operations = verdict_of_operations(executable)
    return by_operations or bottleneck.of_executable(executable.modelled, per_run, samples)


def bound_reason(executable: Executable, peaks: Peaks | None) -> str | None:
    """Why there is no bound, or why it is a lower one."""
    if executable.cost is None:
        return executable.cost_reason
    if peaks is None:
        return "no backend has been found yet"
    if executable.bound is None:
        return LET_GO
    if executable.bound.seconds is None:
        return peaks.reason or executable.bound.reason
    return executable.bound.reason or inexact_reason(executable.work)


def _counted(
    executable: Executable, per_run: float | None, why_no_runs: str | None
) -> tuple[float | None, float | None, str | None]:
    """Runs, their device seconds, and how they were counted (`source`)."""
    if why_no_runs is None:
        timed = per_run is not None and executable.seconds > 0
        return executable.runs, executable.seconds if timed else None, "watched"
    if executable.windows.runs > 0:
        return executable.windows.runs, executable.windows.seconds, "sampled"
    return None, None, None


def _rate(cost: Cost | None, elapsed: float | None) -> float | None:
    """FLOP/s; None where cost or time are not known, or there is nothing to compute."""
    return cost.flops / elapsed if cost is not None and cost.flops > 0 and elapsed and elapsed > 0 else None


class ExecutableTable:
    """Views of the executables that are shown. At most `limit` of them have series of their own."""

    def __init__(self, executables: Executables, limit: int) -> None:
        self._executables = executables
        self._with_series: Heaviest[int] = Heaviest(limit)
        self._longest: Heaviest[int] = Heaviest(LISTED, 1.0)
        self._weights: dict[int, tuple[float, ...]] = {}
        self.views: dict[int, ExecutableView] = {}
        """Views by number, of executables that are listed or have series of their own."""
        self.listed: list[int] = []
        """The executables with the most device time, in order, and the one that needs the most memory."""
        self._changed: list[Executable] = []
        self.shown: list[int] = []
        """Numbers of the executables that have series of their own."""

    def update(self) -> None:
        """Bring views and counters up to date. The time taken grows with the executables that changed, not with all."""
        changed = self._changed = self._executables.settle()
        for executable in changed:
            self.views.pop(executable.number, None)
            self._weights[executable.number] = _weight(executable)
        named = [executable.number for executable in changed if executable.fingerprint]
        self.shown = sorted(self._with_series.choose(self._weights, named))
        self.listed = self._longest.choose(self._weights, [executable.number for executable in changed])
        largest = self._executables.largest[:1]
        if largest and largest[0].number not in self.listed:
            self.listed[-1] = largest[0].number
        needed = dict.fromkeys([*self.listed, *self.shown])
        self.views = {number: self.views.get(number) or self._view(number) for number in needed}

    def counted(self) -> Iterator[tuple[Executable, tuple[str, str]]]:
        """The executables that changed by the last `update`, and the labels of the series that their counts belong to."""
        for executable in self._changed:
            if executable.fingerprint and self._executables.why_no_runs(executable) is None:
                own = (executable.function, executable.fingerprint)
                yield executable, own if executable.number in self.shown else (OTHER, OTHER)

    def left_out(self) -> Figure[int]:
        """How many executables are in no list."""
        count = max(0, len(self._weights) - LISTED)
        reason = f"the {LISTED} with the most device time, else FLOPs, are listed" if count else None
        return Figure(count, reason)

    def _view(self, number: int) -> ExecutableView:
        executable, known = self._executables[number], self._executables
        per_run, why_no_runs = known.seconds_per_run(executable), known.why_no_runs(executable)
        return executable_view(executable, per_run, why_no_runs, known.peaks)


def _weight(executable: Executable) -> tuple[float, ...]:
    """The rank of an executable: its device seconds, then the FLOPs of a run."""
    spent = max(executable.seconds, executable.windows.seconds)
    return spent, executable.work.flops if executable.work else 0.0
