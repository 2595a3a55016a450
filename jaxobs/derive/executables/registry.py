"""All executables: which there are, what work each does, how often each ran, and how long the device took."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from jaxobs.derive.executables.executable import CleanRun, Executable, absorb, bind
from jaxobs.derive.refusal import require
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import ModuleCost, OperationCost
from jaxobs.model.events import ExecutableCreated, ExecutableRan, FunctionWatched, memory_need
from jaxobs.model.figure import Figure
from jaxobs.model.peak_memory import PeakMemory
from jaxobs.roofline_model.traced import Operation, Profiled
from jaxobs.vocabulary.text import OUTSIDE_JIT

NOT_WATCHED = "not watched: wrap the function in obs.watch()"
NOT_JITTED = "it runs outside jit, where no call can be watched: call it in a jitted function, and watch that"


DEFINITIONS = 20
"""Most functions of one name that are distinguished, by where they are defined."""

KIN = 20
"""Newest executables of a function among which one with the same sizes is looked for."""

OPERATIONS_KEPT = 100_000
"""Most operations kept, of some 560 bytes each (measured): ten steps of large models have some ten thousand each."""

PEAKS_SHOWN = 5
"""Executables of which is shown what they hold at the peak, some 8 kB each: a training, its evaluation, and variants."""

OTHERS_NEED_MORE: Figure[PeakMemory] = Figure(None, f"{PEAKS_SHOWN} others need more memory")

MAX_RUN_SECONDS = 1e8
"""Most seconds of a run that is believed: three years."""

LET_GO = f"its operations were let go of: those of the executables that ran last are kept, up to {OPERATIONS_KEPT:,}"
"""Why an executable has no bound time of its own operations."""


class Executables:
    """All executables of the job, by the probe's number."""

    def __init__(self) -> None:
        self._by_number: dict[int, Executable] = {}
        self._by_fingerprint: dict[str, Executable] = {}
        self._watched: dict[int, FunctionWatched] = {}
        self._of_function: defaultdict[str, list[int]] = defaultdict(list)
        self._titles: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Titles by a function's name and definition: the name for the first, and the definition with it for others."""
        self._watched_names: set[str] = set()
        self._unseen_runs: Counter[int] = Counter()
        self.unseen: dict[str, int] = {}
        """Functions some of whose calls do not show which executable ran; with the number that they were watched by."""
        self._operations: dict[str, tuple[OperationCost, ...]] = {}
        """By the fingerprint of their module; that of the one used last is at the end."""
        self.largest: list[Executable] = []
        """Those that need the most memory, the largest first."""
        self.peaks: Peaks | None = None
        self.changed: set[int] = set()
        """Numbers of the executables that changed since the last `settle`."""
        self.local_devices = 1

    def created(self, event: ExecutableCreated) -> None:
        if event.executable in self._by_number:
            return  # reported again
        executable = Executable(event.executable, event.function, dict(event.memory), max(1, event.devices))
        if event.proto is None:
            self._not_analysed(executable, event.proto_reason)
        executable.runs = self._unseen_runs.pop(event.executable, 0)
        self._by_number[event.executable] = executable
        self.largest.append(executable)
        self.largest.sort(key=lambda each: -memory_need(each.memory))
        while len(self.largest) > PEAKS_SHOWN:
            self.largest.pop().peak_memory = OTHERS_NEED_MORE
        self._of_function[event.function].append(event.executable)
        executable.title = self._title(event.function, event.definition)
        self.changed.add(event.executable)

    def analysed(self, number: int, module: ModuleCost | None, reason: str) -> None:
        """Add what the agent found in the executable's module, or the reason why it could not decode it."""
        executable = self._by_number.get(number)
        if executable is None:
            return
        self.changed.add(number)
        if module is None:
            self._not_analysed(executable, reason)
            return
        self._holds(executable, module)
        executable.cost, executable.cost_reason, executable.fingerprint = module.cost, "", module.fingerprint
        executable.donatable_bytes, executable.iterations = module.donatable_bytes, module.iterations
        executable.operations = sum(operation.executions for operation in module.operations)
        self._by_fingerprint[executable.fingerprint] = executable
        self._keep(executable.fingerprint, module.operations)
        self._bind(executable)

    def _keep(self, fingerprint: str, operations: tuple[OperationCost, ...]) -> None:
        """Keep the operations of one module: the newest stay even if they alone exceed the limit."""
        self._operations.pop(fingerprint, None)
        self._operations[fingerprint] = operations
        while sum(map(len, self._operations.values())) > OPERATIONS_KEPT and len(self._operations) > 1:
            del self._operations[next(iter(self._operations))]

    @staticmethod
    def _holds(executable: Executable, module: ModuleCost) -> None:
        """Take what the module holds if it is to be shown; it must add up to what XLA told of the executable."""
        if executable.peak_memory.value is None and executable.peak_memory is not OTHERS_NEED_MORE:
            memory = module.memory
            wrong = module.memory_reason if memory is None else memory.differs(executable.memory)
            executable.peak_memory = Figure(None if wrong else memory, wrong or None)

    @staticmethod
    def _not_analysed(executable: Executable, reason: str) -> None:
        executable.cost_reason, executable.fingerprint = reason, f"number-{executable.number}"
        executable.peak_memory = Figure(None, reason)

    def bind_peaks(self, peaks: Peaks) -> None:
        self.peaks = peaks
        for executable in self._by_number.values():
            self._bind(executable)
        self.changed.update(self._by_number)

    def _bind(self, executable: Executable) -> None:
        if self.peaks is not None:
            bind(executable, self.peaks, self._operations.get(executable.fingerprint))

    def profiled(self, profiled: Profiled) -> None:
        """Add what a profiler window saw. Where several executables have the same content, the newest one gets it."""
        operations: dict[tuple[str, str], list[Operation]] = {}
        for (module, fingerprint, _), operation in profiled.operations.items():
            operations.setdefault((module, fingerprint), []).append(operation)
        for place, ran in profiled.modules.items():
            if (executable := self._by_fingerprint.get(place[1])) is not None:
                absorb(executable, ran, operations.get(place, ()), self._operations.get(place[1]))
                self.changed.add(executable.number)
                if ran.cost is not None:  # GPUs and TPUs hand out their buffers in profiler windows alone
                    self._holds(executable, ran.cost)
                if executable.measured is not None:
                    self._bind(executable)

    def ran(self, runs: Mapping[int, int]) -> None:
        """Add calls by run. Their seconds are told by `spent` where a loop has them, else by `ran_untimed`."""
        for run, calls in runs.items():
            if (executable := self._by_number.get(run)) is not None:
                executable.runs += calls
                self.changed.add(run)
                continue
            self._unseen_runs[run] += calls
            if run in self._watched:
                self._lose_sight(self._watched[run])

    def part_of_devices(self, executable: Executable) -> float:
        """The part of the local devices that it runs on: of one that some do not run each does less on average."""
        return min(1.0, executable.devices / self.local_devices)

    def ran_untimed(self, runs: Mapping[int, int], room: Mapping[int, float]) -> None:
        """Note that no loop will report the seconds of these calls by run, which are counted already.

        `room`: the seconds that they had, by run, where they are those of a loop.
        """
        for run, calls in runs.items():
            if (executable := self._by_number.get(run)) is not None:
                executable.untimed += calls
                executable.room += room.get(run, math.inf)
                self.changed.add(run)

    def spent(self, runs: Mapping[int, float]) -> None:
        """Add the device seconds of a loop's runs."""
        for run, seconds in runs.items():
            self._by_number[run].seconds += seconds
            self.changed.add(run)

    def sampled(self, event: ExecutableRan) -> None:
        require(0 < event.seconds <= MAX_RUN_SECONDS, "device time that is no positive number, or of years")
        require(0 <= event.uncertainty <= MAX_RUN_SECONDS, "device time whose uncertainty is no duration")
        if (executable := self._by_number.get(event.run)) is None:
            return
        run = CleanRun(event.seconds, event.uncertainty)
        executable.told_since = 0
        executable.clean_runs.append(run)
        executable.sample_count += run.is_known
        self.changed.add(event.run)

    def spaced(self, runs: tuple[int, ...], spacing: float, *, ahead: bool) -> None:
        """Note that steps which each ran these, and nothing else, took `spacing` seconds each.

        `ahead`: the host ran ahead of the device, which worked throughout. Different executables are not told apart, and
        what several devices run side by side is not either.
        """
        executable = self._by_number.get(runs[0]) if len(set(runs)) == 1 else None
        if executable is not None and (len(runs) == 1 or executable.devices >= self.local_devices):
            executable.spacings.append((spacing / len(runs), ahead))
            executable.told_otherwise(int(ahead))
            self.changed.add(executable.number)

    def had(self, runs: Iterable[int], wall: float, seconds: float) -> None:
        """Note that these, whose runs take so many seconds as they were timed, had `wall` seconds for them in a loop.

        On some of the devices alone they may lie side by side, and had more.
        """
        ran = [executable for run in runs if (executable := self._by_number.get(run)) is not None]
        if seconds > 0 and all(self.part_of_devices(each) == 1.0 for each in ran):
            for executable in ran:
                executable.share = min(1.0, wall / seconds)
                self.changed.add(executable.number)

    def functions(self) -> dict[str, str]:
        """The function of each executable that was analysed, by its fingerprint."""
        return {fingerprint: each.function for fingerprint, each in self._by_fingerprint.items()}

    def working_sets(self) -> dict[str, float]:
        """Bytes that a run of each of these touches, where that is known, by its fingerprint."""
        known = ((fingerprint, each.working_set) for fingerprint, each in self._by_fingerprint.items())
        return {fingerprint: size for fingerprint, size in known if size is not None}

    def watched(self, event: FunctionWatched) -> None:
        self._watched[event.number] = event
        if event.function not in self._watched_names:
            self._watched_names.add(event.function)
            self.changed.update(self._of_function[event.function])
        if self._unseen_runs[event.number]:
            self._lose_sight(event)

    def _title(self, function: str, definition: str) -> str:
        titles = self._titles[function]
        known = titles.get(definition)
        if known is None and definition and len(titles) < DEFINITIONS:
            known = titles[definition] = f"{function} at {definition}" if titles else function
        return known or function

    def title_of(self, run: int) -> str:
        """The function of a run, distinguished from others of its name."""
        executable = self._by_number.get(run)
        return executable.title if executable is not None else self.function_of(run)

    def function_of(self, run: int) -> str:
        """The function that a watched call ran, by the number of its executable or its own; empty if it is unknown."""
        known = self._by_number.get(run) or self._watched.get(run)
        return known.function if known is not None else ""

    def runs_of(self, run: int) -> int:
        """How many runs are counted of the executable of a run."""
        executable = self._by_number.get(run)
        return executable.runs if executable is not None else self._unseen_runs[run]

    def is_watched(self, function: str) -> bool:
        """Whether a function of that name was given to `obs.watch()`."""
        return function in self._watched_names

    def why_unseen(self, runs: Iterable[int]) -> str | None:
        """The watched function of a run whose executable is not visible, and why; None where all are visible."""
        unseen = next((self._watched[run] for run in runs if run in self._watched), None)
        return f"{unseen.function}: {unseen.reason}" if unseen is not None else None

    def __getitem__(self, number: int) -> Executable:
        return self._by_number[number]

    def get(self, run: int) -> Executable | None:
        return self._by_number.get(run)

    def seconds_per_run(self, executable: Executable) -> float | None:
        """Device seconds of one run; where it was never timed, those of one of the same function and sizes."""
        timed = executable.seconds_per_run
        if timed is not None or not executable.memory:
            return timed
        kin = (self._by_number[number] for number in reversed(self._of_function[executable.function][-KIN:]))
        alike = (each for each in kin if each.memory == executable.memory and each.cost == executable.cost)
        return next((per_run for each in alike if (per_run := each.seconds_per_run) is not None), None)

    def seconds_of(self, run: int) -> float | None:
        """Device seconds of one run, by number; None where none was timed."""
        executable = self._by_number.get(run)
        return None if executable is None else self.seconds_per_run(executable)

    def at_most_seconds_of(self, run: int) -> float | None:
        """Device seconds of one run, by number; those that it takes at most where it is too short to be timed."""
        seconds, executable = self.seconds_of(run), self._by_number.get(run)
        if seconds is not None or executable is None or not executable.at_most:
            return seconds
        return executable.most_seconds_per_run

    def most_seconds(self, runs: Mapping[int, int]) -> float:
        """Device seconds that these calls by run take at most; infinite where one's are not known."""
        each = ((self.at_most_seconds_of(run), calls) for run, calls in runs.items())
        return sum(math.inf if per_run is None else per_run * calls for per_run, calls in each)

    def settle(self) -> list[Executable]:
        """The executables that changed since the last time, in order, with all seconds that are known by now."""
        changed = [self._by_number[number] for number in sorted(self.changed)]
        self.changed.clear()
        for executable in changed:
            if (operations := self._operations.pop(executable.fingerprint, None)) is not None:
                self._operations[executable.fingerprint] = operations
            per_run = self.seconds_per_run(executable) if executable.untimed else None
            if per_run is not None:
                executable.seconds += min(per_run * executable.untimed, executable.room)
                executable.untimed, executable.room = 0, 0.0
        return changed

    def why_no_runs(self, executable: Executable) -> str | None:
        """Why the executable's runs are not counted; None where they are.

        Where its function is not watched, no run of it could be seen, so not even 0 runs is known.
        """
        if executable.function not in self._watched_names:
            return NOT_JITTED if OUTSIDE_JIT in executable.function else NOT_WATCHED
        if executable.function in self.unseen:
            return self._watched[self.unseen[executable.function]].reason
        return None if executable.runs else "no watched call has run it"

    def _lose_sight(self, watched: FunctionWatched) -> None:
        """End the counters of a function's executables: from now on it is not known which of them run."""
        if watched.function not in self.unseen:
            self.unseen[watched.function] = watched.number
            self.changed.update(self._of_function[watched.function])
