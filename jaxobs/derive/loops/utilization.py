"""The work that a loop's runs did: its counters, and how well it used the devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.stretches import Stretch
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bounds import Utilization, asked_flops, model_flops_utilization
from jaxobs.vocabulary.units import rough_percent

MENTIONED = 0.05
"""Share of device time in uncounted programs above which MFU is called a lower bound: samples are off by as much."""

UNCOUNTED = "programs whose work is not counted: those outside jit, and any with a module too large for a profiler window"
UNWATCHED = "runs in the loop too, unwatched: wrap it in obs.watch()"
BESIDE = "a lower bound: the work of calls on other threads is not counted"


@dataclass(slots=True)
class Work:
    """The work of a window's runs on a device, on average of all local ones, by what is known of their executables now.

    `device_seconds` is the time of the runs by their samples, which may be some per cent off.
    """

    cost: Cost = field(default_factory=Cost)
    device_seconds: float = 0.0
    uncosted_runs: int = 0
    untimed_runs: int = 0
    least_untimed: float = 0.0
    """Seconds that the runs without a time took at least, by their bounds."""


def work_of(runs: Mapping[int, int], executables: Executables) -> Work:
    """The work of watched calls by number, as in `StepEnded.runs`."""
    work = Work()
    for run, count in runs.items():
        executable, per_run = executables.get(run), executables.seconds_of(run)
        if executable is None or executable.work is None:
            work.uncosted_runs += count
        else:
            work.cost = work.cost + executable.work.scaled(count * executables.part_of_devices(executable))
        if per_run is None:
            work.untimed_runs += count
            bound = executable and executable.bound
            work.least_untimed += count * ((bound and bound.seconds) or 0.0)
        else:
            work.device_seconds += per_run * count
    return work


class LoopWork:
    """Counters of one loop's work. Runs wait to be counted until their module is decoded, and the peaks are found."""

    def __init__(self, executables: Executables) -> None:
        self._executables = executables
        self._waiting: Counter[int] = Counter()
        self.model_flops: float | None = None
        """The user's own count of a step's FLOPs, on all local devices."""
        self.flops: defaultdict[tuple[str, str], float] = defaultdict(float)
        """Matrix FLOPs by element type and kind: `model`, or `rematerialized`."""
        self.bytes: float | None = None
        self.bound_seconds: defaultdict[str, float] = defaultdict(float)

    def ran(self, runs: Mapping[int, int]) -> None:
        """Add watched calls, by number as in `StepEnded.runs`."""
        for run, calls in runs.items():
            self._waiting[run] += calls

    def why_unseen(self) -> str | None:
        """Why calls of the loop do not show which executable ran, so that no rate gives an MFU; None where all do."""
        return self._executables.why_unseen(self._waiting)

    def count(self) -> None:
        """Bring the counters up to what is known by now. Without a bound there is no bound time, rather than 0 s."""
        peaks = self._executables.peaks
        for run, count in list(self._waiting.items()):
            executable = self._executables.get(run)
            if peaks is None or executable is None or executable.work is None:
                continue
            del self._waiting[run]
            work, times = executable.work, count * executable.devices
            every, repeated = asked_flops(work, peaks, passes=False)
            for dtype, flops in every.items():
                again = repeated.get(dtype, 0.0)
                self.flops[dtype, "model"] += times * (flops - again)
                self.flops[dtype, "rematerialized"] += times * again
            self.bytes = (self.bytes or 0.0) + times * work.bytes
            if (bound := executable.bound) is None:
                continue
            if bound.seconds is not None:
                for word in ("compute", "memory"):
                    self.bound_seconds[word] += count * bound.seconds if bound.limit == word else 0.0
            if bound.communication_seconds is not None:
                self.bound_seconds["communication"] += count * bound.communication_seconds

    def utilization(self, rated: Stretch, did: Work, unwatched: str | None, *, watched: bool) -> Utilization:
        """MFU and HFU of the stretches that rates are over: `did` is the work of their watched runs.

        `unwatched` names a function that runs in the loop without being watched; `watched`: others are.
        """
        executables, peaks = self._executables, self._executables.peaks
        reason = None
        if peaks is None:
            reason = "no backend has been found yet"
        elif did.uncosted_runs:
            reason = executables.why_unseen(rated.runs) or "the cost of some runs is not known"
        elif not did.cost.matrix_flops and unwatched is not None:
            reason = f"{unwatched} was compiled in the loop, so it runs there, and is not watched: wrap it in obs.watch()"
        elif not did.cost.matrix_flops and not watched:
            reason = "no function of the loop is watched: wrap it in obs.watch()"
        if peaks is None or reason is not None:
            return Utilization(None, None, reason)
        own = self.model_flops and self.model_flops * rated.steps / executables.local_devices
        return model_flops_utilization(did.cost, rated.wall, peaks, own)

    def why_more(self, rated: Stretch, profile: LoopProfile | None, unwatched: str | None) -> str | None:
        """Why the counted work of those stretches is a lower bound; None where none is known that is not counted."""
        executables = self._executables
        if executables.most_seconds(rated.beside) > MENTIONED * rated.wall:
            return BESIDE
        if profile is not None and profile.busy_seconds > 0:
            ran = map(executables.get, rated.runs)
            counted = {executable.fingerprint for executable in ran if executable is not None}
            computed = sum(
                sum(part.seconds.values()) - part.seconds["transfer"] - part.seconds["communication"]
                for fingerprint, part in profile.parts.items()
                if fingerprint not in counted
            )
            if (share := computed / profile.busy_seconds) > MENTIONED:
                return f"a lower bound: for {rough_percent(share)} of the time that the device works it runs {UNCOUNTED}"
        return unwatched and f"a lower bound: {unwatched} {UNWATCHED}"
