"""When the next profiler window may begin and how long it may be: pure, from what the windows before it cost.

The budget is a share of wall time. A window begins only when all windows before it are paid for, so that at any time
they have cost no more than the budget so far and one window. All times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

STEPS_A_WINDOW = 10
"""Whole steps that a window should hold where the budget allows."""

SHORTEST, LONGEST = 0.03, 2.0
"""Below 30 ms a window holds little but its own beginning; 2 s hold twenty steps of 100 ms: enough."""

DENSEST = 0.002
"""Only where a window of 30 ms would not be paid for in time, or be too large, is it shorter, and no shorter than this:
on two cores a loop that made 5 million events a second filled it with 13 000, and `stop()` took 31 ms."""

FIRST_STEPS, FIRST_LONGEST = 8, 0.25
"""The first window is short: how many operations a second the job runs is not known yet. Eight steps hold five whole ones
where tracing makes them a quarter slower, and one is cut at each end."""

GROWTH = 4.0
"""A window is at most so many times longer than the last, which may have met the job at rest."""

FILLED = 2**18
"""Bytes of trace that a window may have where no step is marked: some 5 000 to 12 000 operations of a CPU, whose `stop()`
takes 20 to 60 ms. So where operations are long, windows are, and hold whole runs of what nobody marks."""

NOTICEABLY = 1.5
"""A window longer by less than this is not worth its cost where the last showed nothing."""

FORGETTING = 0.9
"""For the same reason a job's densest window is remembered, and counts a tenth less with each that follows; so does the
length that was too short to show anything."""

ENOUGH_STEPS = 5
"""With fewer steps in a window, their number says nothing about how much slower they were."""

SHORTEST_PAUSE, LONGEST_PAUSE = 10.0, 3600.0
PAID_WITHIN = 60.0
"""A window is kept short enough to be paid for within a minute, rather than long and rare. And of a budget that was not
used no more than a minute's is kept: else a job that begins to compile often after ten quiet hours would have a window
after each compile, for hours."""

SECONDS_A_TRANSFERRED_BYTE = 2e-9
"""20 MB are written to the agent in 20 to 40 ms, nearly all of it without the interpreter lock."""

PART_OF_MAXIMUM = 0.7
"""Windows are planned for so much of the largest trace allowed, because a job's rate of operations varies."""


@dataclass(frozen=True, slots=True)
class Window:
    """What one window was: seconds of recording (more than 0), of starting and of stopping; bytes; the steps in it.

    `usual_steps` is how many steps would have ended in that time without it, None where that is not known.
    """

    length: float
    starting: float
    stopping: float
    size: int
    steps: int
    usual_steps: float | None

    @property
    def usual_step(self) -> float | None:
        """Seconds that a step takes without it."""
        return self.length / self.usual_steps if self.usual_steps else None

    @property
    def slower(self) -> float:
        """Seconds that traced steps took longer.

        From the number of steps where it is large enough; else as much as `stop()` took, for both grow with the number
        of events, recording one takes less than writing it out, and more than the window itself it cannot be.
        """
        if self.usual_steps is None or self.usual_steps < ENOUGH_STEPS:
            return min(self.length, self.stopping)
        return self.length * min(1.0, max(0.0, 1.0 - self.steps / self.usual_steps))

    @property
    def cost(self) -> float:
        """All that the job may have lost. `stop()` counts in full, although most of it runs beside the job."""
        return self.starting + self.stopping + self.slower + self.size * SECONDS_A_TRANSFERRED_BYTE

    @property
    def growing(self) -> float:
        """What each second of recording costs."""
        return (self.cost - self.starting) / self.length


@dataclass(frozen=True, slots=True)
class Schedule:
    """`ratio` of wall time since `began` may be spent.

    `spent`: what the windows have cost, and the budget that was not used in time. `ended`, `length`: of the last.
    `growing`: what each second of recording costs besides, `density`: the bytes that it makes. `empty`: windows in a row
    that showed nothing, and that a longer one is not tried instead of. `too_short`: how long the last one was that
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
        """When the next window may begin; infinity where the budget is nothing.

        `renewed`: what the last one showed is of no use any more, so that the next comes as soon as it is paid for.
        """
        if self.ratio <= 0:
            return float("inf")
        paid = self.began + self.spent / self.ratio
        if self.ended is None or renewed:
            return paid
        pause = min(LONGEST_PAUSE, SHORTEST_PAUSE * 2.0 ** min(self.empty, 20))
        return max(paid, self.ended + pause)

    def next_length(self, step: float | None) -> float:
        """How long the next window should record; `step`: seconds that a step takes, None where none is seen."""
        step = step or 0.0
        if self.length is None:
            return self._bounded(min(FIRST_LONGEST, max(SHORTEST, FIRST_STEPS * step or self._filled())))
        # An operation that goes on throughout a window is not in its trace. Where no steps are marked the job may as well
        # have been idle, and may get busy: then it is no longer than a first window.
        showing = min(GROWTH * self.too_short, LONGEST if step else FIRST_LONGEST)
        some = max(2 * SHORTEST, STEPS_A_WINDOW * step or self._filled(), showing)
        wanted = min(LONGEST, GROWTH * self.length, some)
        return self._bounded(max(SHORTEST, wanted))

    def _filled(self) -> float:
        """Seconds until a trace has its fill; 0 where it is not known how fast it grows."""
        return FILLED / self.density if self.density > 0 else 0.0

    def _bounded(self, wanted: float) -> float:
        """No longer than is paid for in time, and than makes as large a trace as there may be."""
        paid = PAID_WITHIN * self.ratio / self.growing if self.growing > 0 else wanted
        return max(DENSEST, min(wanted, paid, self.longest()))

    def longest(self) -> float:
        """How long a window may record until its trace is as large as it may be."""
        return PART_OF_MAXIMUM * self.maximum_bytes / self.density if self.density > 0 else float("inf")

    def after(self, window: Window, ended: float, *, empty: bool = False) -> Schedule:
        """The schedule once a window of ours is over; `empty`: it showed nothing.

        Where steps went on meanwhile a longer window comes after the usual pause, until they are as long as they may be.
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
        """For the length of the very next window alone: a glimpse has shown how much that would record and cost."""
        return replace(
            self,
            growing=max(glimpse.growing, self.growing),
            density=max(glimpse.size / glimpse.length, self.density),
        )

    def charged(self, glimpse: Window, ended: float) -> Schedule:
        """The schedule once a glimpse is over: it cost, and the window that follows says more."""
        return replace(self, spent=self._spent_by(ended) + glimpse.cost)

    def renewed(self) -> Schedule:
        """The schedule once something else runs than before: the next window is as short as a first one."""
        return replace(self, length=None)

    def refused(self, window: Window, ended: float) -> Schedule:
        """The schedule once a window of ours was thrown away that had far too many events: the next is much shorter."""
        after = self.after(window, ended)
        growing = PAID_WITHIN * self.ratio * GROWTH / window.length
        return replace(after, growing=max(after.growing, growing))

    def lost(self, window: Window, ended: float) -> Schedule:
        """The schedule once a window is over whose trace was thrown away: it cost, and says nothing else."""
        return replace(self, spent=self._spent_by(ended) + window.cost, ended=ended)

    def _spent_by(self, at: float) -> float:
        return max(self.spent, self.ratio * (at - self.began - PAID_WITHIN))

    def skipped(self, at: float) -> Schedule:
        """The schedule where somebody else had the profiler: it is tried again after a pause."""
        return replace(self, ended=at)

    def learnt(self, window: Window, ended: float) -> Schedule:
        """The schedule after a window that somebody asked for, whose cost is not the budget's."""
        return replace(self.after(window, ended), spent=self.spent)
