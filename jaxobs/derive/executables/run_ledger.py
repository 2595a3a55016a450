"""The ledger of runs: how often each executable ran, and how long the device took."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.refusal import require
from jaxobs.model.events import ExecutableRan

LONGEST_RUN = 1e8
"""Most seconds of a run that is believed: three years."""

MISSED = 1 / 3
"""Polls miss most runs of an executable that has less than this share of another one's samples per call: for runs of
0.7 ms after ones of 12 ms it was 0 to 1/6."""


class RunLedger:
    """Counts runs of the executables `by_number`. `ran_unseen` is called for calls whose executable is not known."""

    def __init__(self, by_number: Mapping[int, Executable], ran_unseen: Callable[[int, int], None]) -> None:
        self._by_number = by_number
        self._ran_unseen = ran_unseen
        self.changed: set[int] = set()
        """Numbers of the executables that changed since the last `settle`."""
        self.local_devices = 1

    def hold(self, runs: Mapping[int, int]) -> None:
        """Count calls by run while it is not known yet whether they belong to a loop."""
        for run, calls in runs.items():
            if (executable := self._by_number.get(run)) is not None:
                executable.runs += calls
                self.changed.add(run)

    def release(self, runs: Mapping[int, int]) -> None:
        """Take held calls by run off the count again: it is known where they belong, and they are counted there."""
        for run, calls in runs.items():
            if (executable := self._by_number.get(run)) is not None:
                executable.runs -= calls

    def ran_outside(self, runs: Mapping[int, int]) -> None:
        """Count held calls by run as calls outside loops."""
        self.release(runs)
        for run, calls in runs.items():
            self.ran(run, calls)

    def ran(self, run: int, calls: int = 1) -> None:
        """Add calls outside loops: each takes as long as its executable's runs do."""
        if self.ran_in_loop(run, calls) is not None:
            self.ran_untimed(run, calls)

    def ran_untimed(self, run: int, calls: int) -> None:
        """Note that no loop will report the seconds of these calls, which are counted already."""
        if (executable := self._by_number.get(run)) is not None:
            executable.untimed += calls
            self.changed.add(run)

    def ran_in_loop(self, run: int, calls: int = 1) -> Executable | None:
        """Add calls whose seconds the loop reports by `spent`. Returns the executable, None where it is not visible."""
        executable = self._by_number.get(run)
        if executable is None:
            self._ran_unseen(run, calls)
            return None
        executable.runs += calls
        self.changed.add(run)
        return executable

    def seconds_of(self, run: int) -> float | None:
        """Device seconds of one run; None where none was timed."""
        executable = self._by_number.get(run)
        return None if executable is None else executable.timed_seconds_per_run

    def spent(self, run: int, seconds: float) -> None:
        """Add device seconds of runs in a loop."""
        self._by_number[run].seconds += seconds
        self.changed.add(run)

    def fitted(self, run: int, share: float) -> None:
        """Note that a loop's wall time recently had room for that share of the seconds of its timed runs."""
        executable = self._by_number[run]
        timed = executable.timed_seconds_per_run
        executable.room = timed * share if timed is not None and share < 1 else math.inf
        self.changed.add(run)

    def timed_runs(self, run: int) -> int:
        """How many runs `seconds_of` is from: recent ones timed by polling, or those traced by the profiler."""
        executable = self._by_number.get(run)
        if executable is None:
            return 0
        return len(executable.samples) if executable.samples_tell else int(executable.windows.runs)

    def sampled(self, event: ExecutableRan) -> None:
        require(0 < event.seconds <= LONGEST_RUN, "device time that is no positive number, or of years")
        require(0 <= event.uncertainty <= LONGEST_RUN, "device time whose uncertainty is no duration")
        executable = self._by_number.get(event.run)
        if executable is not None:
            executable.samples.append(event.seconds)
            executable.sample_count += 1
            executable.sample_error = min(1.0, event.uncertainty / event.seconds)
            self.changed.add(event.run)

    def spaced(self, runs: tuple[int, ...], spacing: float) -> None:
        """Note that steps which ran these executables and nothing else completed `spacing` seconds apart on average.

        A device runs one after the other, so together they take no longer than that. Where they are several, each gets
        its share, in the proportion of traced runs, else of samples. The spacing is of use because polling a few runs
        closely disturbs them where there are few cores.
        """
        known = {run: self._by_number[run] for run in runs if run in self._by_number}
        if len(known) < len(set(runs)):
            return
        if len(runs) > 1 and any(one.devices < self.local_devices for one in known.values()):
            return  # different devices may run them side by side
        if len(known) == 1:
            parts = dict.fromkeys(known, spacing / len(runs))
        else:
            _note_missed(known, runs)
            alone = _seconds_alone(known)
            if alone is None:
                return
            share = spacing / sum(alone[run] for run in runs)
            parts = {run: seconds * share for run, seconds in alone.items()}
        for run, seconds in parts.items():
            known[run].spacings.append(seconds)
            self.changed.add(run)

    def settle(self) -> list[Executable]:
        """Give the executables that changed, in order, after adding the known seconds of their runs outside loops."""
        changed = [self._by_number[number] for number in sorted(self.changed)]
        self.changed.clear()
        for executable in changed:
            per_run = executable.seconds_per_run
            if per_run is not None and executable.untimed:
                executable.seconds += per_run * executable.untimed
                executable.untimed = 0
        return changed


def _note_missed(executables: Mapping[int, Executable], runs: tuple[int, ...]) -> None:
    """Note which executables polls mostly miss, of those that each step `runs`.

    Consecutive calls are sampled, so each executable should have samples in proportion to its calls in a step.
    """
    timed = {run: one.sample_count / runs.count(run) for run, one in executables.items()}
    for run, one in executables.items():
        one.mostly_missed = timed[run] < MISSED * max(timed.values())


def _seconds_alone(executables: Mapping[int, Executable]) -> dict[int, float] | None:
    """Seconds of one run of each executable, all timed in the same way; None where that cannot be."""
    traced = {run: one.windows.seconds_per_run for run, one in executables.items()}
    known = {run: seconds for run, seconds in traced.items() if seconds}
    if len(known) == len(executables):
        return known
    if not all(one.samples_tell for one in executables.values()):
        return None
    return {run: statistics.median(one.samples) for run, one in executables.items()}
