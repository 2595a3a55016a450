"""Executables: what each must do, how often it ran, how long the device took, and how near that is to the roof."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from jaxobs.derive import bottleneck
from jaxobs.derive import catalogue as core
from jaxobs.derive.executable import Executable
from jaxobs.derive.executable_gauges import GAUGES, fill_gauges, rate
from jaxobs.derive.executable_windows import absorb, bind, verdict_of_operations
from jaxobs.derive.profiled import Operation, Profiled
from jaxobs.derive.refusal import require
from jaxobs.derive.roofline import efficiency
from jaxobs.derive.selection import Selection
from jaxobs.derive.series import Series
from jaxobs.model.cost import Cost, ModuleCost
from jaxobs.model.events import ExecutableCreated, ExecutableRan, FunctionWatched
from jaxobs.model.hardware import Peaks
from jaxobs.model.labels import OTHER

NOT_WATCHED = "not watched: wrap the function in obs.watch()"


class Executables:
    """All executables of the job. `limit` of them keep series of their own."""

    def __init__(self, series: Series, limit: int) -> None:
        self._series = series
        self._selection: Selection[int] = Selection(limit)
        self._by_number: dict[int, Executable] = {}
        self._by_fingerprint: dict[str, Executable] = {}
        self._watched: dict[int, FunctionWatched] = {}
        self._watched_names: set[str] = set()
        self._unseen_runs: Counter[int] = Counter()
        self._told: dict[tuple[str, int], float] = {}
        self.peaks: Peaks | None = None
        self.local_devices = 1

    def created(self, event: ExecutableCreated) -> None:
        if event.executable in self._by_number:
            return  # told again
        made = Executable(event.executable, event.function, dict(event.memory), max(1, event.devices))
        if event.proto is None:
            made.cost_reason = event.proto_reason
            made.fingerprint = f"number-{event.executable}"
        self._by_number[event.executable] = made

    def analysed(self, number: int, module: ModuleCost | None, reason: str) -> None:
        """The agent has decoded the module, or could not."""
        made = self._by_number.get(number)
        if made is None:
            return
        if module is None:
            made.cost_reason, made.fingerprint = reason, f"number-{number}"
            return
        made.module, made.cost, made.cost_reason, made.fingerprint = (
            module,
            module.cost,
            "",
            module.fingerprint,
        )
        self._by_fingerprint[made.fingerprint] = made
        if self.peaks is not None:
            bind(made, self.peaks)

    def bind_peaks(self, peaks: Peaks) -> None:
        self.peaks = peaks
        for made in self._by_number.values():
            bind(made, peaks)

    def profiled(self, joined: Profiled) -> None:
        """What a profiler window saw. Of several executables with the same content it is charged to the newest."""
        operations: dict[tuple[str, str], list[Operation]] = {}
        for (module, fingerprint, _), operation in joined.operations.items():
            operations.setdefault((module, fingerprint), []).append(operation)
        for place, ran in joined.modules.items():
            made = self._by_fingerprint.get(place[1])
            if made is not None:
                absorb(made, ran, operations.get(place, ()))
                if self.peaks is not None and made.measured is not None:
                    bind(made, self.peaks)

    def functions(self) -> dict[str, str]:
        """The function of each executable, by its fingerprint."""
        return {made.fingerprint: made.function for made in self._by_number.values() if made.fingerprint}

    def working_sets(self) -> dict[str, float]:
        """Bytes that a run of each executable touches, by its fingerprint."""
        known = ((made.fingerprint, made.working_set) for made in self._by_number.values())
        return {fingerprint: size for fingerprint, size in known if fingerprint and size is not None}

    def watched(self, event: FunctionWatched) -> None:
        self._watched[event.number] = event
        self._watched_names.add(event.function)

    def ran(self, run: int, calls: int = 1) -> None:
        made = self._by_number.get(run)
        if made is None:
            self._unseen_runs[run] += calls
        else:
            made.runs += calls

    def sampled(self, event: ExecutableRan) -> None:
        require(math.isfinite(event.seconds) and event.seconds > 0, "device time that is no positive number")
        made = self._by_number.get(event.run)
        if made is not None:
            made.samples.append(event.seconds)
            made.sample_count += 1

    def spaced(self, run: int, spacing: float) -> None:
        """Steps that ran this executable alone completed so far apart, on average over many.

        A device runs one after the other, so a run takes no longer. Polling a few runs closely disturbs them where the
        cores are few.
        """
        made = self._by_number.get(run)
        if made is not None:
            made.spacings.append(spacing)

    def is_watched(self, function: str) -> bool:
        """Whether a function of that name was given to `obs.watch()`."""
        return function in self._watched_names

    def why_unseen(self, runs: Iterable[int]) -> str | None:
        """Where it is not visible which executable ran: the watched function, and why."""
        unseen = next((self._watched[run] for run in runs if run in self._watched), None)
        return f"{unseen.function}: {unseen.reason}" if unseen is not None else None

    def get(self, run: int) -> Executable | None:
        return self._by_number.get(run)

    def of_fingerprint(self, fingerprint: str) -> Executable | None:
        """The newest with this content."""
        return self._by_fingerprint.get(fingerprint)

    def update(self) -> None:
        """Bring the series up to what was folded."""
        for made in self._by_number.values():
            per_run = made.seconds_per_run
            new = made.runs - self._told.get(("runs", made.number), 0.0)
            if per_run is not None and new > 0:
                made.seconds += per_run * new
                self._told["runs", made.number] = made.runs
        weights = {
            made.number: (max(made.seconds, made.windows.seconds), made.work.flops if made.work else 0.0)
            for made in self._by_number.values()
            if made.fingerprint
        }
        shown = self._selection.choose(weights)
        gauges: dict[str, dict[tuple[str, ...], float | None]] = {metric.name: {} for metric in GAUGES}
        for number in weights:
            made = self._by_number[number]
            name = (made.function, made.fingerprint) if number in shown else (OTHER, OTHER)
            if made.runs:
                self._tell(core.EXECUTABLE_RUNS, made, name, made.runs)
            if made.seconds:
                self._tell(core.EXECUTABLE_SECONDS, made, name, made.seconds)
            if number in shown:
                fill_gauges(gauges, made, name, self._verdict(made))
        for metric in GAUGES:
            self._series.replace(metric, gauges[metric.name].items())

    def document(self) -> list[dict[str, Any]]:
        """Those with the most device time first."""
        known = sorted(self._by_number.values(), key=lambda made: (-made.seconds, made.number))
        return [self._entry(made) for made in known]

    def _entry(self, made: Executable) -> dict[str, Any]:
        per_run, cost, bound = made.seconds_per_run, made.work, made.bound
        near = efficiency(bound, per_run) if bound is not None and per_run is not None else None
        runs_reason = self._why_no_runs(made)
        runs, spent, source = self._counted(made, runs_reason)
        unmeasured = (
            None
            if per_run is not None
            else runs_reason
            or "no run has been timed: that takes an output of at most 1 MiB that is not donated"
        )
        unbound = self._bound_reason(made)
        achieved, attainable = rate(cost, per_run), rate(cost, bound.seconds if bound else None)
        no_flops = "it computes no floating-point number" if cost is not None and not cost.flops > 0 else None
        donatable = made.module.donatable_bytes if made.module else None
        why_near = unmeasured or (near.reason if near else None) or unbound
        return {
            "function": made.function,
            "executable": made.fingerprint or None,
            "executable_reason": None if made.fingerprint else made.cost_reason,
            "cost": cost.to_dict() | {"intensity_reason": _why_no_intensity(cost)} if cost else None,
            "cost_reason": None if cost else made.cost_reason,
            "runs": runs,
            "runs_reason": runs_reason if runs is None else None,
            "seconds": spent,
            "seconds_reason": unmeasured or runs_reason if spent is None else None,
            "source": source,
            "source_reason": runs_reason or unmeasured if source is None else None,
            "seconds_per_run": per_run,
            "seconds_per_run_reason": unmeasured,
            "samples": made.sample_count,
            "profiled_runs": made.windows.runs,
            "profiled_seconds": made.windows.seconds,
            "bound_seconds": bound.seconds if bound else None,
            "bound_seconds_reason": unbound,
            "achieved_flops_per_second": achieved,
            "achieved_flops_per_second_reason": (
                None if achieved is not None else unmeasured or no_flops or made.cost_reason
            ),
            "attainable_flops_per_second": attainable,
            "attainable_flops_per_second_reason": no_flops or unbound,
            "efficiency": near.value if near else None,
            "efficiency_reason": why_near or made.lower_bound_reason,
            "bottleneck": self._verdict(made).to_dict(),
            "memory": dict(made.memory),
            "memory_reason": None if made.memory else "the backend gave no memory analysis",
            "donatable_bytes": donatable,
            "donatable_bytes_reason": (
                None
                if donatable is not None
                else made.cost_reason or "arguments and outputs were not compared"
            ),
            "devices": made.devices,
        }

    def _counted(
        self, made: Executable, runs_reason: str | None
    ) -> tuple[float | None, float | None, str | None]:
        """Runs, their device seconds, and whether all were counted (`watched`) or those in windows (`sampled`)."""
        if runs_reason is None:
            timed = made.seconds_per_run is not None
            return made.runs, made.seconds if timed else None, "watched"
        if made.windows.runs > 0:
            return made.windows.runs, made.windows.seconds, "sampled"
        return None, None, None

    def _why_no_runs(self, made: Executable) -> str | None:
        """A namesake that nobody watches has no runs that could be seen, so 0 is not known either."""
        if made.function not in self._watched_names:
            return NOT_WATCHED
        for seen in self._watched.values():
            if seen.function == made.function and self._unseen_runs[seen.number] > 0:
                return seen.reason
        return None if made.runs else "no watched call has run it"

    def _bound_reason(self, made: Executable) -> str | None:
        """Why there is no bound, or why it is a lower one."""
        if made.cost is None:
            return made.cost_reason
        if self.peaks is None or made.bound is None:
            return "no backend has been found yet"
        if made.bound.seconds is None:
            return self.peaks.reason or made.bound.reason
        return made.bound.reason or made.lower_bound_reason

    def _verdict(self, made: Executable) -> bottleneck.Verdict:
        """Without a bound because a peak is missing the label is unknown; without a cost it is unmodelled."""
        if made.cost is not None and made.bound is None:
            return bottleneck.Verdict("unknown", 0.0, None, reason=self._bound_reason(made))
        told = verdict_of_operations(made)
        if told is not None:
            return told
        return bottleneck.of_executable(
            made.bound, made.seconds_per_run, made.sample_count, complete=made.is_modelled
        )

    def _tell(self, metric: Any, made: Executable, labels: tuple[str, ...], total: float) -> None:
        key = (metric.name, made.number)
        new = total - self._told.get(key, 0.0)
        self._told[key] = total
        self._series.add(metric, labels, new)


def _why_no_intensity(cost: Cost) -> str | None:
    return "it moves no byte of device memory" if cost.intensity is None else None
