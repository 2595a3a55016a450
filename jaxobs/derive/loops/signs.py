"""Signs that the job goes on: silences, runs that last, and steps that stall."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import (
    ExecutableRan,
    FunctionCalled,
    LiveArraysCounted,
    MemorySampled,
    Recorded,
    RunUnderWay,
    StepCompleted,
)
from jaxobs.model.figure import Figure

SHORTEST: Final = 30 * NANOSECONDS
"""Shortest silence: a shorter one lies within the half minute that a loop's bottleneck covers. Sampled completions come
twice a second while watched functions are called, memory statistics each second, counts of arrays every ten or more."""

KEPT: Final = 100
"""Newest silences remembered: those of a long step under way, in which something is seen now and then."""


class SignsOfLife:
    """The newest sign that the job goes on (a finished run, a compile, a recorded value), and the silences before it.

    Neither a busy device nor a busy core is a sign: to wait in a collective for a hung rank keeps both busy.
    """

    def __init__(self, began: int) -> None:
        self.last = began
        self._silences: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._memory: dict[int, int | None] = {}
        self._arrays: tuple[int | None, int | None] | None = None

    def seen(self, time: int) -> None:
        """Note a sign at `time`; one that is older than the newest changes nothing."""
        if time - self.last > SHORTEST:
            self._silences.append((self.last, time))
        self.last = max(self.last, time)

    def is_near(self, time: int) -> bool:
        """Whether no silence lies between the newest sign and `time`."""
        return time - self.last <= SHORTEST

    def happened(self, event: StepCompleted | ExecutableRan | FunctionCalled | Recorded) -> None:
        """Note a sign: a watched function was called, the device finished a run, or a value was recorded."""
        self.seen(event.time)

    def memory_sampled(self, event: MemorySampled) -> None:
        """Note a sign where a device's memory in use changed. The process's own memory changes without the job, too."""
        if event.device >= 0:
            before = self._memory.get(event.device)
            self._memory[event.device] = event.in_use
            if before is not None and event.in_use is not None and before != event.in_use:
                self.seen(event.time)

    def arrays_counted(self, event: LiveArraysCounted) -> None:
        """Note a sign where the live arrays changed: a program that computes creates and frees arrays."""
        before, self._arrays = self._arrays, (event.arrays, event.bytes)
        if before is not None and event.arrays is not None and before != self._arrays:
            self.seen(event.time)

    def silent(self, start: int, end: int, longest: int) -> int:
        """Nanoseconds of [start, end] in silences of more than `longest` nanoseconds."""
        stretches = [*self._silences, (self.last, end)]
        lengths = [min(stop, end) - max(begin, start) for begin, stop in stretches]
        return sum(length for length in lengths if length > longest)


FRESH = 5 * NANOSECONDS
"""Nanoseconds after its last report from which on a run may have ended. It is reported once a second, and the report
arrives a second later."""

NONE_SEEN = "no run of a watched function is known to have lasted for two seconds by now"


@dataclass(frozen=True, slots=True)
class RunningView:
    """The function of a run that is under way, and for how many seconds it is known to have run."""

    function: str
    seconds: float


class RunsUnderWay:
    """The newest run under way; one is enough, as a device runs one after the other."""

    def __init__(self) -> None:
        self._newest: RunUnderWay | None = None

    def seen(self, event: RunUnderWay) -> None:
        self._newest = event

    def ended(self, event: ExecutableRan | StepCompleted) -> None:
        """The device was done with a run, and so with all runs dispatched before it."""
        if self._newest is not None and event.time >= self._newest.time:
            self._newest = None

    def at(self, now: int) -> RunUnderWay | None:
        """The run that was under way within `FRESH` nanoseconds before `now`, if any."""
        newest = self._newest
        return newest if newest is not None and now - newest.time <= FRESH else None

    def view(self, now: int, function_of: Callable[[int], str]) -> Figure[RunningView]:
        """The run under way, with its function named by `function_of`; or why none is known."""
        newest = self.at(now)
        if newest is None:
            return Figure(None, NONE_SEEN)
        return Figure(RunningView(function_of(newest.run), seconds(newest.time - newest.start)))


STEPS_KEPT = 200
"""Newest steps whose times give the usual step time: enough for a mean that one slow step does not move."""

ENOUGH_STEPS = 50
"""A loop of fewer steps has no usual step time. Before the first wait for the device XLA lets the host run 32 programs
ahead (`max_inflight_computations` of its clients), so the first turns say nothing of how long a step takes."""

FACTOR = 40
"""Multiple of the usual step time above which a step is long. A host that runs 32 steps ahead and then waits for the
device has one turn of 32 steps' time."""

LEAST_SECONDS = 30.0
"""A shorter step is never long: it lies within the half minute that the loop's bottleneck covers, and is in its
components."""

IN_A_ROW = 5
"""Consecutive long steps after which the usual step time is taken anew: that is how long the loop's steps take now."""


class Stalls:
    """Sums up what long steps took beyond the usual step time, from each step's own seconds.

    A step's own seconds are those without compiles, checkpoints, waits for input, inner loops and phases. A step is
    long where they exceed `limit`. Its seconds beyond `usual` go to `seconds` as far as nothing was seen to happen in
    them, and to `busy_seconds` otherwise: an evaluation, say, that nobody marked.
    """

    def __init__(self) -> None:
        self._usual: deque[float] = deque(maxlen=STEPS_KEPT)
        self._known: float | None = None
        """The usual step time, cached until another step ends: each snapshot reads it several times."""
        self._in_a_row = 0
        self.seconds = 0.0
        self.busy_seconds = 0.0

    def is_long(self, own: float) -> bool:
        """Whether a step with so many own seconds is a long one."""
        return own > LEAST_SECONDS and (limit := self.limit) is not None and own > limit

    def step(self, own: float, silent: float = math.inf) -> None:
        """Add a step in which nothing was seen for `silent` seconds. A long one does not count among the usual ones."""
        if self.is_long(own):
            beyond = own - self.usual
            stalled = max(0.0, min(beyond, silent))
            self.seconds += stalled
            self.busy_seconds += beyond - stalled
            self._in_a_row += 1
            if self._in_a_row == IN_A_ROW:
                self._usual.clear()
        else:
            self.steps((own,))

    def steps(self, own: Sequence[float]) -> None:
        """Add the own seconds of many steps, none of which is long."""
        self._usual.extend(own)
        self._known = None
        self._in_a_row = 0

    @property
    def usual(self) -> float:
        """Seconds of a usual step: the mean or the 90th percentile, whichever is longer; 0 before the first step.

        The mean is right where the host waits for the device every so many steps, the percentile where it had run ahead
        at first.
        """
        if not self._usual:
            return 0.0
        if self._known is None:
            ordered = sorted(self._usual)
            self._known = max(statistics.fmean(ordered), ordered[int(0.9 * (len(ordered) - 1))])
        return self._known

    @property
    def limit(self) -> float | None:
        """Own seconds above which a step is long; None while too few steps are known."""
        if len(self._usual) < ENOUGH_STEPS:
            return None
        return max(LEAST_SECONDS, FACTOR * self.usual)
