"""When the next profiler window may begin and how long it is: by the job's pace, and by what windows have cost so far.

The budget is a share of wall time. A window begins only when all windows before it are paid for, so that at any time
they have cost no more than the budget so far and one window. All times are seconds.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

from jaxobs.model.clock import NANOSECONDS
from jaxobs.plugin.protocol import Progress

STEPS_A_WINDOW = 8
"""Steps whose time a window takes: it then holds at least two whole ones where tracing makes them half as slow again."""

MIN_SECONDS, MAX_SECONDS = 0.06, 10.0
"""Below 60 ms a window holds little but its own beginning; steps of more than two seconds are not held whole."""

UNMARKED_SECONDS, MAX_UNMARKED_SECONDS = 0.25, 2.0
FILLED_BYTES = 2**18
"""Where no steps are seen a window takes until its trace has so many bytes, within these bounds: where operations are
long so are windows, which then hold whole iterations of unmarked loops."""

FIRST_SECONDS = 0.5
"""Longest window while the rate of events is not known: a GPU runs what is launched, up to two hundred thousand a second.
A CPU runs up to five million, and it is learnt first."""

PLANNED_BYTES = 2 * 2**20
"""Bytes of trace that a window is planned for: 40 000 to 90 000 operations of a CPU, for which `stop()` takes 0.1 to
0.5 s. A tenth of the largest trace allowed, where that is less."""

SLOWEST_FALL = 0.5
"""Part of the rate of events so far below which one window does not bring it, however few were in it: it may have lain
between two bursts, and the next, planned for so few, would meet one and be thrown away."""

PART_OF_MAXIMUM = 0.7
"""Part of the largest trace allowed that a window which somebody asked for may fill."""

MIN_PAUSE, MAX_PAUSE = 10.0, 3600.0
KEPT_SECONDS = 60.0
"""Of the unused budget only a minute's is kept: otherwise a job that begins to compile often after ten quiet hours would
have a window after each compile, for hours."""

SECONDS_A_TRANSFERRED_BYTE = 2e-9
"""Cost of sending a trace to the agent: 20 MB take 20 to 40 ms, nearly all of it without the interpreter lock."""

CHANGES = 20
"""Samples that the pace is computed from: the last ones at which steps had ended, since the last compile or window."""

QUIET_SECONDS = 3.0
QUIET_STEPS = 3
"""A job is warm this long and this many steps after its last compile: the first steps
still fill caches and pipelines."""

UNMARKED_QUIET_SECONDS = 30.0
"""Seconds without a compile after which a job is warm where no steps are marked, for lack of any other sign."""

STANDING_SECONDS = 2.5
"""A loop whose last step is this long ago, and three steps' time, stands still: it compiles, evaluates, or waits."""

ENOUGH_STEPS = 5
"""Fewest steps in a window whose number shows how much slower they were."""


@dataclass(frozen=True, slots=True)
class Window:
    """The figures of a window that is over: its times in seconds, the bytes of its trace, and the steps in it.

    `length` is that of the recording, more than 0. `usual_steps` is how many steps would have ended in that time
    without the window, None if unknown.
    """

    length: float
    starting: float
    stopping: float
    size: int
    steps: int
    usual_steps: float | None

    @property
    def slower(self) -> float:
        """Seconds by which tracing slowed the steps down.

        From the number of steps where it is large enough. Otherwise an upper bound: the time of `stop()`, since both
        grow with the number of events and recording one takes less than writing it out,
        but no more than the window itself.
        """
        if self.usual_steps is None or self.usual_steps < ENOUGH_STEPS:
            return min(self.length, self.stopping)
        return self.length * min(1.0, max(0.0, 1.0 - self.steps / self.usual_steps))

    @property
    def cost(self) -> float:
        """The seconds that the job may have lost. `stop()` counts in full, although most of it runs beside the job."""
        return self.starting + self.stopping + self.slower + self.size * SECONDS_A_TRANSFERRED_BYTE


@dataclass(frozen=True, slots=True)
class Schedule:
    """The state of the budget after the windows so far: `ratio` of wall time since `began` may be spent.

    `spent`: the cost of the windows, and the budget that expired unused. `ended`: the end of the last window, and
    `pause` what follows it. `density`: the bytes of trace per second of recording, None if unknown.
    """

    ratio: float
    maximum_bytes: int
    began: float
    spent: float = 0.0
    ended: float = -math.inf
    pause: float = MIN_PAUSE
    density: float | None = None

    def due(self, *, renewed: bool = False) -> float:
        """The time at which the next window may begin; infinity if the budget is 0.

        `renewed`: what the last window showed is out of date, so the next comes as soon as the windows are paid for.
        """
        if self.ratio <= 0:
            return math.inf
        paid = self.began + self.spent / self.ratio
        return paid if renewed else max(paid, self.ended + self.pause)

    def next_length(self, step: float | None) -> float:
        """Seconds that the next window should record; `step`: seconds per step, None if none is seen."""
        if step is None:
            filled = FILLED_BYTES / self.density if self.density else UNMARKED_SECONDS
            wanted = min(MAX_UNMARKED_SECONDS, max(UNMARKED_SECONDS, filled))
        else:
            wanted = max(MIN_SECONDS, STEPS_A_WINDOW * step)
        return min(wanted, self.longest())

    def longest(self) -> float:
        """Seconds until a trace is as large as windows are planned for, or may be where its growth is not known."""
        if self.density is None:
            return FIRST_SECONDS
        planned = min(PLANNED_BYTES, self.maximum_bytes / 10)
        return min(MAX_SECONDS, planned / self.density) if self.density > 0 else MAX_SECONDS

    def longest_requested(self) -> float:
        """Seconds until a trace that somebody asked for is as large as one may be, but for what a job's rate varies."""
        if self.density is None:
            return self.longest()
        return PART_OF_MAXIMUM * self.maximum_bytes / self.density if self.density > 0 else math.inf

    def after(self, window: Window, ended: float, *, empty: bool = False) -> Schedule:
        """The schedule after a window of ours; `empty`: it showed nothing, and the next come more and more rarely."""
        pause = min(MAX_PAUSE, 2 * self.pause) if empty else MIN_PAUSE
        return replace(self.learnt(window).lost(window, ended), pause=pause)

    def learnt(self, window: Window) -> Schedule:
        """The schedule after a window that somebody asked for: it tells the rate of events and costs nothing."""
        least = SLOWEST_FALL * (self.density or 0.0)
        return replace(self, density=max(least, window.size / window.length))

    def lost(self, window: Window, ended: float) -> Schedule:
        """The schedule after a window whose trace was thrown away: its cost counts, and it says nothing else."""
        expired = self.ratio * (ended - self.began - KEPT_SECONDS)
        return replace(self, spent=max(self.spent, expired) + window.cost, ended=ended, pause=MIN_PAUSE)

    def renewed(self) -> Schedule:
        """The schedule after the job has begun to run something else: the next window is as short as a first one."""
        return replace(self, density=None, pause=MIN_PAUSE)

    def skipped(self, at: float) -> Schedule:
        """The schedule after somebody else had the profiler: the next attempt comes after a pause."""
        return replace(self, ended=at, pause=MIN_PAUSE)


class Pace:
    """How fast steps follow each other, and whether the job has warmed up.

    Call `look` once a second. All times are seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        self._changes: deque[tuple[float, int]] = deque(maxlen=CHANGES)
        self._compiled: int | None = None
        self._steps_then = 0
        self._steps = 0
        self._at = 0.0

    def look(self, progress: Progress, at: float) -> None:
        if progress.compiled != self._compiled:
            self._compiled = progress.compiled
            self._steps_then = progress.steps
            self._changes.clear()
        if not self._changes or progress.steps != self._changes[-1][1]:
            self._changes.append((at, progress.steps))
        self._steps, self._at = progress.steps, at

    def interrupted(self) -> None:
        """Discard the samples after a window: those before it and those after it are not of one pace."""
        self._changes.clear()

    def is_steady(self) -> bool:
        """Whether the loop is running and has warmed up since the last compile."""
        if self._compiled is None or not self._changes:
            return False
        quiet = self._at - self._compiled / NANOSECONDS
        if self._steps == 0:
            return quiet >= UNMARKED_QUIET_SECONDS
        step = self.step_seconds
        if quiet < QUIET_SECONDS or step is None or self._steps - self._steps_then < QUIET_STEPS:
            return False
        return self._at - self._changes[-1][0] <= max(STANDING_SECONDS, 3 * step)

    @property
    def rate(self) -> float | None:
        """Steps per second outside windows; None where none were seen."""
        if len(self._changes) < 2:
            return None
        (began, first), (ended, last) = self._changes[0], self._changes[-1]
        return (last - first) / (ended - began) if last > first and ended > began else None

    @property
    def step_seconds(self) -> float | None:
        """Seconds per step outside windows; None where no steps were seen."""
        rate = self.rate
        return None if rate is None else 1.0 / rate
