"""Computes when the next profiler window may begin and how long it may be, from the cost of the windows before it.

The budget is a share of wall time. A window begins only when all windows before it are paid for, so that at any time
they have cost no more than the budget so far and one window. Pure functions; all times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

STEPS_A_WINDOW = 10
"""Whole steps that a window should hold where the budget allows."""

SHORTEST, LONGEST = 0.03, 2.0
"""Below 30 ms a window holds little but its own beginning; 2 s hold twenty steps of 100 ms: enough."""

DENSEST = 0.002
"""Shortest window where one of 30 ms would not be paid for in time, or would have too large a trace: on two cores a
loop that made 5 million events a second filled it with 13 000, and `stop()` took 31 ms."""

FIRST_STEPS, FIRST_LONGEST = 8, 0.25
"""Steps and longest duration of the first window, short because the job's rate of operations is not known yet. The time
of eight steps holds five whole ones where tracing makes them a quarter slower and one is cut at each end."""

GROWTH = 4.0
"""Largest ratio of a window's length to that of the last one, which may have met the job at rest."""

FILLED = 2**18
"""Bytes of trace that a window is planned for where no step is marked: 5 000 to 12 000 operations of a CPU, for which
`stop()` takes 20 to 60 ms. Where operations are long so are windows, which then hold
whole iterations of unmarked loops."""

NOTICEABLY = 1.5
"""Factor by which a window must be longer to be worth its cost where the last one showed nothing."""

FORGETTING = 0.9
"""The densest window so far is remembered, because the last may have met the job at rest, and so is the length that was
too short to show anything; this factor of both is kept with each window that follows."""

ENOUGH_STEPS = 5
"""Fewest steps in a window whose number shows how much slower they were."""

SHORTEST_PAUSE, LONGEST_PAUSE = 10.0, 3600.0
PAID_WITHIN = 60.0
"""Windows are kept short enough to be paid for within a minute, rather than long and rare. Of the unused budget, too,
only a minute's is kept: otherwise a job that begins to compile often after ten quiet hours would have a window after
each compile, for hours."""

SECONDS_A_TRANSFERRED_BYTE = 2e-9
"""Cost of sending a trace to the agent: 20 MB take 20 to 40 ms, nearly all of it without the interpreter lock."""

PART_OF_MAXIMUM = 0.7
"""Part of the largest trace allowed that windows are planned for, because a job's rate of operations varies."""


@dataclass(frozen=True, slots=True)
class Window:
    """The figures of a window that is over: its times in seconds, the bytes of its trace, and the steps in it.

    `length` is that of the recording, more than 0. `usual_steps` is how many steps would have ended in that time
    without the window, None where unknown.
    """

    length: float
    starting: float
    stopping: float
    size: int
    steps: int
    usual_steps: float | None

    @property
    def usual_step(self) -> float | None:
        """Seconds per step without the window."""
        return self.length / self.usual_steps if self.usual_steps else None

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

    @property
    def growing(self) -> float:
        """The cost per second of recording, without that of starting."""
        return (self.cost - self.starting) / self.length


@dataclass(frozen=True, slots=True)
class Schedule:
    """The state of the budget after the windows so far: `ratio` of wall time since `began` may be spent.

    `spent`: the cost of the windows, and the budget that expired unused. `ended`, `length`: those of the last window.
    `growing`: the cost per second of recording. `density`: the bytes of trace per second of recording. `empty`: windows
    in a row that showed nothing and are not followed by a longer one. `too_short`: the length of the last one that
    showed nothing.
    """

    ratio: float
    maximum_bytes: int
    began: float
    spent: float = 0.0
    ended: float | None = None
    length: float | None = None
    growing: float = 0.0
    density: float = 0.0
    empty: int = 0
    too_short: float = 0.0

    def due(self, *, renewed: bool = False) -> float:
        """The time at which the next window may begin; infinity where the budget is 0.

        `renewed`: what the last window showed is out of date, so the next comes as soon as the windows are paid for.
        """
        if self.ratio <= 0:
            return float("inf")
        paid = self.began + self.spent / self.ratio
        if self.ended is None or renewed:
            return paid
        pause = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2.0 ** min(self.empty, 20))
        return max(paid, self.ended + pause)

    def next_length(self, step: float | None) -> float:
        """Seconds that the next window should record; `step`: seconds per step, None where none is seen."""
        step = step or 0.0
        if self.length is None:
            return self._bounded(min(FIRST_LONGEST, max(SHORTEST, FIRST_STEPS * step or self._filled())))
        # A trace lacks an operation that lasts longer than the window, so a longer window follows one that showed
        # nothing. Without marked steps the job may as well have been idle and may get
        # busy: then it is at most a first window's.
        showing = min(GROWTH * self.too_short, LONGEST if step else FIRST_LONGEST)
        some = max(2 * SHORTEST, STEPS_A_WINDOW * step or self._filled(), showing)
        wanted = min(LONGEST, GROWTH * self.length, some)
        return self._bounded(max(SHORTEST, wanted))

    def _filled(self) -> float:
        """Seconds until a trace has FILLED bytes; 0 where its growth is not known."""
        return FILLED / self.density if self.density > 0 else 0.0

    def _bounded(self, wanted: float) -> float:
        """Bound a length so that it is paid for within PAID_WITHIN and its trace is not too large."""
        paid = PAID_WITHIN * self.ratio / self.growing if self.growing > 0 else wanted
        return max(DENSEST, min(wanted, paid, self.longest()))

    def longest(self) -> float:
        """Seconds until a trace is as large as windows are planned for; infinity where its growth is not known."""
        return PART_OF_MAXIMUM * self.maximum_bytes / self.density if self.density > 0 else float("inf")

    def after(self, window: Window, ended: float, *, empty: bool = False) -> Schedule:
        """The schedule after a window of ours; `empty`: it showed nothing.

        If steps went on during an empty window, a longer one follows after the usual
        pause, until the longest is reached.
        """
        after = replace(
            self.lost(window, ended),
            length=window.length,
            growing=max(window.growing, FORGETTING * self.growing),
            density=max(window.size / window.length, FORGETTING * self.density),
            empty=0,
            too_short=window.length if empty else FORGETTING * self.too_short,
        )
        if not empty:
            return after
        steps_went_on = window.usual_steps is not None
        longer = steps_went_on and after.next_length(window.usual_step) > NOTICEABLY * window.length
        return replace(after, empty=self.empty if longer else self.empty + 1)

    def glimpsed(self, glimpse: Window) -> Schedule:
        """The schedule from which to take the next window's length alone, after a glimpse of its density and cost."""
        return replace(
            self,
            growing=max(glimpse.growing, self.growing),
            density=max(glimpse.size / glimpse.length, self.density),
        )

    def charged(self, glimpse: Window, ended: float) -> Schedule:
        """The schedule after a glimpse, whose cost counts; the window that follows says more than it did."""
        return replace(self, spent=self._spent_by(ended) + glimpse.cost)

    def renewed(self) -> Schedule:
        """The schedule after the job has begun to run something else: the next window is as short as a first one."""
        return replace(self, length=None)

    def refused(self, window: Window, ended: float) -> Schedule:
        """The schedule after a window thrown away because it had far too many events: the next is much shorter."""
        after = self.after(window, ended)
        growing = PAID_WITHIN * self.ratio * GROWTH / window.length
        return replace(after, growing=max(after.growing, growing))

    def lost(self, window: Window, ended: float) -> Schedule:
        """The schedule after a window whose trace was thrown away: its cost counts, and it says nothing else."""
        return replace(self, spent=self._spent_by(ended) + window.cost, ended=ended)

    def _spent_by(self, at: float) -> float:
        return max(self.spent, self.ratio * (at - self.began - PAID_WITHIN))

    def skipped(self, at: float) -> Schedule:
        """The schedule after somebody else had the profiler: the next attempt comes after a pause."""
        return replace(self, ended=at)

    def learnt(self, window: Window, ended: float) -> Schedule:
        """The schedule after a window that somebody asked for, whose cost does not count against the budget."""
        return replace(self.after(window, ended), spent=self.spent)
