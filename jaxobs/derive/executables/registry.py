"""Executables: what each must do, how often it ran, how long the device took, and how near that is to the roof."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from jaxobs.derive.executables.document import executable_document, executable_verdict
from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.gauges import GAUGES, fill_gauges
from jaxobs.derive.executables.kept_operations import KeptOperations
from jaxobs.derive.executables.profiled import absorb, bind
from jaxobs.derive.memory.usage import memory_need
from jaxobs.derive.metrics.catalogue import executable_metrics
from jaxobs.derive.metrics.selection import Largest, Selection
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import ModuleCost
from jaxobs.model.events import ExecutableCreated, ExecutableRan, FunctionWatched
from jaxobs.roofline_model.traced import Operation, Profiled
from jaxobs.vocabulary.labels import OTHER, OUTSIDE_JIT, clean_label

LISTED = 300
"""Executables in a snapshot: an entry takes 30 µs and 1.4 kB (measured)."""

LONGEST_RUN = 1e8
"""Seconds; three years."""

NOT_WATCHED = "not watched: wrap the function in obs.watch()"
NOT_JITTED = (
    "it runs outside jit, where no call can be watched: call it in a function of jax.jit, and watch that"
)


class Executables:
    """All executables of the job. `limit` of them keep series of their own."""

    def __init__(self, series: Series, limit: int) -> None:
        self._series = series
        self._selection: Selection[int] = Selection(limit)
        self._by_number: dict[int, Executable] = {}
        self._by_fingerprint: dict[str, Executable] = {}
        self._watched: dict[int, FunctionWatched] = {}
        self._of_function: defaultdict[str, list[int]] = defaultdict(list)
        self._watched_names: set[str] = set()
        self._unseen_runs: Counter[int] = Counter()
        self._unseen: dict[str, int] = {}
        """Functions of which it is not visible which executable some calls ran, with the number they were watched by."""
        self._operations = KeptOperations()
        self._weights: dict[int, tuple[float, ...]] = {}
        self._longest: Largest[int] = Largest(LISTED)
        self._listed: list[int] = []
        self._rows: dict[int, dict[str, Any]] = {}
        self._changed: set[int] = set()
        self._largest: Executable | None = None
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
        if self._largest is None or memory_need(made.memory) > memory_need(self._largest.memory):
            self._largest = made
        self._of_function[event.function].append(event.executable)
        self._changed.add(event.executable)

    def analysed(self, number: int, module: ModuleCost | None, reason: str) -> None:
        """The agent has decoded the module, or could not."""
        made = self._by_number.get(number)
        if made is None:
            return
        self._changed.add(number)
        if module is None:
            made.cost_reason, made.fingerprint = reason, f"number-{number}"
            return
        made.cost, made.cost_reason, made.fingerprint = module.cost, "", module.fingerprint
        made.donatable_bytes, made.iterations = module.donatable_bytes, module.iterations
        self._by_fingerprint[made.fingerprint] = made
        self._operations.keep(made.fingerprint, module.operations)
        self._bind(made)

    def bind_peaks(self, peaks: Peaks) -> None:
        self.peaks = peaks
        for made in self._by_number.values():
            self._bind(made)
        self._changed.update(self._by_number)

    def _bind(self, made: Executable) -> None:
        if self.peaks is not None:
            bind(made, self.peaks, self._operations.of(made.fingerprint))

    def profiled(self, joined: Profiled) -> None:
        """What a profiler window saw. Of several executables with the same content it is charged to the newest."""
        operations: dict[tuple[str, str], list[Operation]] = {}
        for (module, fingerprint, _), operation in joined.operations.items():
            operations.setdefault((module, fingerprint), []).append(operation)
        for place, ran in joined.modules.items():
            made = self._by_fingerprint.get(place[1])
            if made is not None:
                absorb(made, ran, operations.get(place, ()), self._operations.of(made.fingerprint))
                self._changed.add(made.number)
                if made.measured is not None:
                    self._bind(made)

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
        self._changed.update(self._of_function[event.function])
        if self._unseen_runs[event.number]:
            self._lose_sight(event)

    def function_of(self, run: int) -> str:
        """The function that a watched call ran, by the number of its executable or its own; empty if that is unknown."""
        made, watched = self._by_number.get(run), self._watched.get(run)
        return made.function if made is not None else watched.function if watched is not None else ""

    def seconds_of(self, run: int) -> float | None:
        """Device seconds of one run, where some were timed."""
        made = self._by_number.get(run)
        return None if made is None else made.timed_seconds_per_run

    def hold(self, runs: Mapping[int, int]) -> None:
        """Calls by run that are counted already, while it is not known yet whether they belong to a loop."""
        for run, calls in runs.items():
            if (made := self._by_number.get(run)) is not None:
                made.runs += calls
                self._changed.add(run)

    def release(self, runs: Mapping[int, int]) -> None:
        """Calls by run that were held, as by now it is known: whoever tells so counts them."""
        for run, calls in runs.items():
            if (made := self._by_number.get(run)) is not None:
                made.runs -= calls

    def ran(self, run: int, calls: int = 1) -> None:
        """Calls outside loops: each takes as long as its executable's runs do."""
        made = self.ran_in_loop(run, calls)
        if made is not None:
            made.untimed += calls

    def ran_in_loop(self, run: int, calls: int = 1) -> Executable | None:
        """Calls whose seconds the loop tells (`spent`). Gives the executable, where it is visible which one ran."""
        made = self._by_number.get(run)
        if made is not None:
            made.runs += calls
            self._changed.add(run)
            return made
        self._unseen_runs[run] += calls
        if run in self._watched:
            self._lose_sight(self._watched[run])
        return None

    def spent(self, run: int, seconds: float) -> None:
        """Device seconds of runs in a loop."""
        self._by_number[run].seconds += seconds
        self._changed.add(run)

    def fitted(self, run: int, share: float) -> None:
        """Of the seconds of its timed runs a loop had room for that share lately."""
        made = self._by_number[run]
        timed = made.timed_seconds_per_run
        made.room = timed * share if timed is not None and share < 1 else math.inf
        self._changed.add(run)

    def is_sampled(self, run: int) -> bool:
        """Whether runs were timed as they were, and not only while the profiler traced them."""
        made = self._by_number.get(run)
        return made is not None and bool(made.samples)

    def sampled(self, event: ExecutableRan) -> None:
        require(0 < event.seconds <= LONGEST_RUN, "device time that is no positive number, or of years")
        require(0 <= event.uncertainty <= LONGEST_RUN, "device time whose uncertainty is no duration")
        made = self._by_number.get(event.run)
        if made is not None:
            made.samples.append(event.seconds)
            made.sample_count += 1
            made.sample_error = min(1.0, event.uncertainty / event.seconds)
            self._changed.add(event.run)

    def spaced(self, runs: tuple[int, ...], spacing: float) -> None:
        """Steps that ran these executables, and nothing else, completed so far apart, on average over many.

        A device runs one after the other, so together they take no longer, and each of several its share of that by the
        samples. Polling a few runs closely disturbs them where the cores are few.
        """
        made = {run: self._by_number[run] for run in runs if run in self._by_number}
        if len(made) < len(set(runs)):
            return
        if len(made) == 1:
            parts = dict.fromkeys(made, spacing / len(runs))
        else:
            if any(one.devices < self.local_devices or not one.samples for one in made.values()):
                return  # different devices may run them side by side
            sampled = {run: statistics.median(one.samples) for run, one in made.items()}
            share = spacing / sum(sampled[run] for run in runs)
            parts = {run: seconds * share for run, seconds in sampled.items()}
        for run, seconds in parts.items():
            made[run].spacings.append(seconds)
            self._changed.add(run)

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
        """Bring the series up to what was folded. Takes as long as what changed, not as there are executables."""
        changed = [self._by_number[number] for number in sorted(self._changed)]
        self._changed.clear()
        for made in changed:
            self._rows.pop(made.number, None)
            per_run = made.seconds_per_run
            if per_run is not None and made.untimed:
                made.seconds += per_run * made.untimed
                made.untimed = 0
            self._operations.used(made.fingerprint)
            self._weights[made.number] = _weight(made)
        shown = self._selection.choose(self._weights, [made.number for made in changed if made.fingerprint])
        self._list([made.number for made in changed])
        for made in changed:
            if made.fingerprint and self._why_no_runs(made) is None:
                name = (made.function, made.fingerprint) if made.number in shown else (OTHER, OTHER)
                self._tell(executable_metrics.EXECUTABLE_RUNS, made, name, made.runs)
                if made.seconds:
                    self._tell(executable_metrics.EXECUTABLE_SECONDS, made, name, made.seconds)
        gauges: dict[str, dict[tuple[str, ...], float | None]] = {metric.name: {} for metric in GAUGES}
        for number in sorted(shown):
            made = self._by_number[number]
            name = (made.function, made.fingerprint)
            fill_gauges(gauges, made, name, executable_verdict(made, self.peaks))
        for metric in GAUGES:
            self._series.replace(metric, gauges[metric.name].items())

    def document(self) -> list[dict[str, Any]]:
        """As of the last `update`: those with the most device time first, and the one that needs the most memory."""
        return [self._rows[number] for number in self._listed]

    def left_out(self) -> dict[str, Any]:
        """`executables_left_out`: how many are in no list, and why."""
        count = max(0, len(self._by_number) - LISTED)
        reason = f"the {LISTED} with the most device time, else FLOPs, are listed" if count else None
        return {"executables_left_out": count, "executables_left_out_reason": reason}

    def _list(self, changed: list[int]) -> None:
        """Draw the entries of those that are listed anew where something changed: snapshots keep the old ones."""
        self._listed = list(self._longest.update(self._weights, changed))
        largest = self._largest.number if self._largest is not None else None
        if largest is not None and largest not in self._listed:
            self._listed[-1] = largest
        rows = {}
        for number in self._listed:
            made = self._by_number[number]
            rows[number] = self._rows.get(number) or executable_document(
                made, self._why_no_runs(made), self.peaks
            )
        self._rows = rows

    def _why_no_runs(self, made: Executable) -> str | None:
        """A namesake that nobody watches has no runs that could be seen, so 0 is not known either."""
        if made.function not in self._watched_names:
            return NOT_JITTED if OUTSIDE_JIT in made.function else NOT_WATCHED
        if made.function in self._unseen:
            return self._watched[self._unseen[made.function]].reason
        return None if made.runs else "no watched call has run it"

    def _lose_sight(self, watched: FunctionWatched) -> None:
        """From now on it is not known which executables of the function run: what was counted says nothing any more."""
        if watched.function in self._unseen:
            return
        self._unseen[watched.function] = watched.number
        self._changed.update(self._of_function[watched.function])
        for metric in (executable_metrics.EXECUTABLE_RUNS, executable_metrics.EXECUTABLE_SECONDS):
            for labels in [*self._series.gauges(metric.name)]:
                if labels[0] == clean_label(watched.function):
                    self._series.set(metric, labels, None)

    def _tell(self, metric: Any, made: Executable, labels: tuple[str, ...], total: float) -> None:
        key = (metric.name, made.number)
        new = total - self._told.get(key, 0.0)
        self._told[key] = total
        self._series.add(metric, labels, new)


def _weight(made: Executable) -> tuple[float, ...]:
    """Device seconds, else the FLOPs of a run."""
    return max(made.seconds, made.windows.seconds), made.work.flops if made.work else 0.0
