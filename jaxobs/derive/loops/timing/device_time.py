"""Attributes the device time of a loop's watched runs to their executables: never more than the loop's wall time.

The time of a run is the median of sampled ones, a few per cent off; and a host that dispatches ahead has counted runs
that the device has not begun. So the seconds for which the wall time has no room yet stay unattributed, and are
attributed as time goes by. A host that leaves the loop while the device is behind waits for the device elsewhere: the
loop's own time goes on until the device is done. Where nothing shows yet how long that is, as no run has been timed, the
loop's time is in doubt, and so are its rates.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import NamedTuple

from jaxobs.derive.loops.collaborators import Runs
from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT, queued_seconds
from jaxobs.derive.loops.timing.left_loop import RUN_AHEAD, may_hide, works_on
from jaxobs.derive.steps.plain_steps import PlainSteps
from jaxobs.model.clock import seconds
from jaxobs.model.events import StepCompleted, StepEnded

LEAST_FIT = 0.5
"""Least share of the sampled seconds that must have fitted into the wall time for the share to correct the samples.
These are not wrong by a factor of two: where they seem to be, what the device did is not known."""


class Entry(NamedTuple):
    """When the loop was entered last, in nanoseconds, and what lies before: host's seconds, steps, device's seconds."""

    time: int = 0
    wall: float = 0.0
    steps: int = 0
    dispatched: float = 0.0


class LoopDeviceTime:
    """The device time of one loop, attributed to its executables; `seconds` is the sum so far.

    `host_waits` tells whether completions show that the host waits for the device in each step.
    """

    def __init__(self, runs: Runs, host_waits: Callable[[], bool]) -> None:
        self._runs = runs
        self._host_waits = host_waits
        self.seconds = 0.0
        self._wall = self._settled_wall = 0.0
        """The host's seconds in the loop so far, and their number when the unattributed seconds were last checked
        against a completion, or the loop was entered anew."""
        self._after = 0.0
        """Seconds outside the loop in which the device worked on runs that the loop had dispatched."""
        self._worked_outside = 0.0
        """How many of them since the host left the loop last."""
        self._elsewhere = 0.0
        """Seconds since the last `_fit` that are not in the wall time: inner loops, phases, between epochs."""
        self._untimed: Counter[int] = Counter()
        """Runs that are not counted in seconds yet."""
        self._unattributed: defaultdict[int, float] = defaultdict(float)
        self._per_run: dict[int, float] = {}
        """Seconds of a run by which they were counted, of runs since the loop was entered."""
        self._dispatched = 0.0
        """Device seconds of all timed runs so far, attributed or not."""
        self._recently_attributed: defaultdict[int, float] = defaultdict(float)
        self._in_wall = 0.0
        """Attributed seconds in which the host was in the loop."""
        self._untaken: defaultdict[int, float] = defaultdict(float)
        """Attributed seconds by run, since the last `take`."""
        self._untaken_after = 0.0
        """How many of them lie after the host left the loop."""
        self._steps = self._steps_left_out = 0
        self.entry = Entry()
        self._ended: int | None = None
        self._ran_ahead: bool | None = None
        """Whether the device works on for the loop that the host has left; None before anything shows it."""
        self.doubtful_steps = 0
        """Steps since the loop was entered, where the host has left it and the device may work on for much longer."""
        self._doubtful_since: int | None = None
        self._last: tuple[int, int] | None = None
        """The number of the newest step, and when it ended on the host."""
        self._completed: StepCompleted | None = None
        """The newest completion, until `_fit` has used it."""
        self._newest_completed: StepCompleted | None = None
        self._ends: deque[int] = deque(maxlen=2 * IN_FLIGHT)
        """When the host ended the newest steps."""

    def step_ended(self, event: StepEnded, wall: float) -> None:
        """Add a step, before which the host has been in the loop for `wall` seconds."""
        self._step_began(event.start - event.gap, wall)
        self._elsewhere += seconds(event.nested)
        self._last = (event.step, event.end)
        self._ends.append(event.end)
        self._steps += 1
        self._untimed.update(event.runs)

    def steps_ended(self, steps: PlainSteps, wall: float) -> None:
        """Add many steps at once; `wall` as above."""
        self._step_began(steps.starts[0] - steps.gaps[0], wall)
        self._last = (steps.last, steps.ends[-1])
        self._ends.extend(steps.ends[-2 * IN_FLIGHT :])
        self._steps += len(steps)
        self._untimed.update(steps.runs)

    def _step_began(self, time: int, wall: float) -> None:
        """The loop goes on; where the previous step ended before `time`, the host was elsewhere in between."""
        if self._ended is None and self._last is not None and time > self._last[1]:
            self._ended = self._last[1]
        if self._ended is not None:
            self._come_back(time, wall, self._ended)
        elif self._last is None:
            self._enter(time, wall)
        self._ended = self._ran_ahead = None
        self.doubtful_steps, self._worked_outside = 0, 0.0

    def _come_back(self, time: int, wall: float, ended: int) -> None:
        """The host comes back to the loop that it left at `ended`: it enters it anew, unless it was hardly away."""
        self._take_stock(wall)
        self._count_outside(time, back=True)
        self._attribute()
        if self._ran_ahead is None and not self.doubtful_steps:
            self._elsewhere += seconds(max(0, time - ended))
            return
        if self.doubtful_steps:
            self._leave_out(time)
        elif self._worked_outside >= LEAST_FIT * (self._worked_outside + self._left()):
            self._unattributed.clear()  # the samples were too long by as much, or the rest is little
        self._enter(time, wall)

    def _enter(self, time: int, wall: float) -> None:
        self._settled_wall, self.entry = wall, Entry(time, wall, self._steps, self._dispatched)
        self._per_run = {run: self._per_run[run] for run in self._unattributed}

    def _leave_out(self, time: int) -> None:
        """The loop is entered anew at `time`, before anything has shown how long the device worked on for it."""
        if self._doubtful_since is None:
            self._doubtful_since = self.entry.time
        self._steps_left_out += self._steps - self.entry.steps
        self._dispatched = self.entry.dispatched
        for run, calls in self._untimed.items():
            self._runs.ran_untimed(run, calls)
        elapsed = seconds(max(0, time - (self._ended or time)))
        share = min(1.0, elapsed / (self._left() or math.inf))
        for run, amount in self._unattributed.items():
            self._runs.spent(run, amount * share)
            elapsed -= amount * share
        self._untimed.clear()
        self._unattributed.clear()
        self._elsewhere += max(0.0, elapsed)
        # No room of theirs is left for later runs.
        self.seconds, self._in_wall = self._wall + self._after, self._wall

    def completed(self, event: StepCompleted) -> None:
        self._completed = self._newest_completed = event

    def loop_ended(self, time: int) -> None:
        self._ended = time

    def count(self, wall: float, now: int) -> None:
        """Attribute the device time that is known at `now`, when the host has been in the loop for `wall` seconds."""
        self._take_stock(wall)
        self._fit()
        self._count_outside(now)
        self._attribute()

    def _take_stock(self, wall: float) -> None:
        """Turn runs into seconds, as far as some of them were timed, and attribute those that the loop has room for."""
        self._wall = wall
        for run in list(self._untimed):
            per_run = self._runs.seconds_of(run)
            if per_run is not None:
                self._per_run[run] = per_run
                amount = per_run * self._untimed.pop(run)
                self._unattributed[run] += amount
                self._dispatched += amount
        self._attribute()

    def behind(self, per_step: float | None = None) -> float:
        """Seconds of the loop's work that the device still has before it, or had when the host ended the newest step.

        The latter is meant where the host is in the loop. `per_step`: the device's seconds a step, where completions
        show them; else those of the runs that were timed.
        """
        if self._last is None or self.doubtful_steps:
            return 0.0
        if self._ended is not None and self._ran_ahead is not None:
            return self._left() if self._ran_ahead else 0.0
        per_step = self._per_step() if per_step is None else per_step
        return queued_seconds(per_step, *self._last, self._newest_completed, self._ends)

    def doubtful_since(self) -> int | None:
        """When the steps began for which the device worked on for a time that is not known, and that is past; once."""
        since, self._doubtful_since = self._doubtful_since, None
        return since

    def take(self, spent: dict[int, float]) -> float:
        """Add to `spent` the seconds by run attributed since the last call; returns those after the loop."""
        for run, amount in self._untaken.items():
            spent[run] = spent.get(run, 0.0) + amount
        after = self._untaken_after
        self._untaken, self._untaken_after = defaultdict(float), 0.0
        return after

    def _attribute(self) -> None:
        """Attribute as many unattributed seconds as the loop's time has room for: the same share of each run's."""
        room, unattributed = max(0.0, self._wall + self._after - self.seconds), self._left()
        if unattributed <= 0 or room <= 0:
            return
        share = min(1.0, room / unattributed)
        inside = min(share, max(0.0, self._wall - self._in_wall) / unattributed)
        for run, amount in self._unattributed.items():
            self._runs.spent(run, amount * share)
            self._recently_attributed[run] += amount * share
            self._untaken[run] += amount * share
        self.seconds += min(room, unattributed)
        self._in_wall += unattributed * inside
        self._untaken_after += unattributed * (share - inside)
        self._keep(1 - share)

    def _fit(self) -> None:
        """Correct the samples by a completion: once the device was done with a step, only later steps' work is left."""
        done, last = self._completed, self._last
        if done is None or last is None or done.time > last[1]:
            return  # what the device did since the last step's end is not in the wall time yet
        self._completed, self._settled_wall = None, self._wall
        kept = max(0, last[0] - done.step) * self._per_step()
        self._after += max(0.0, min(self._left() - kept, self._elsewhere))
        self._elsewhere = 0.0
        self._attribute()
        attributed, unattributed = sum(self._recently_attributed.values()), self._left()
        kept = min(unattributed, kept)
        share = attributed / (attributed + unattributed - kept) if attributed > 0 else 0.0
        if share >= LEAST_FIT:
            for run in self._recently_attributed:
                self._runs.fitted(run, share)
        self._recently_attributed.clear()
        self._keep(kept / unattributed if unattributed > 0 else 0.0)

    def _count_outside(self, now: int, *, back: bool = False) -> None:
        """Count the time up to `now` since the host left the loop: as the loop's if the device still works for it.

        `back`: the host has come back now.
        """
        if self._ended is None or now <= self._ended:
            return
        elapsed = seconds(now - self._ended)
        if self._ran_ahead is None:
            self._time_anew()
            self._ran_ahead = False if self._all_is_seen_done() else self._works_on()
            steps, wall = self._steps - self.entry.steps, self._wall - self.entry.wall
            self.doubtful_steps = steps if self._ran_ahead is None and may_hide(steps, wall, elapsed) else 0
            most = IN_FLIGHT * self._per_step()
            self._keep(min(1.0, most / (self._left() or math.inf)))
        if self._ran_ahead is None:
            return  # all of it is counted once that is known
        unattributed = self._left() if self._ran_ahead else 0.0
        if back and 0 < elapsed - unattributed <= RUN_AHEAD * (self._worked_outside + unattributed):
            # The host was waiting for the device, as far as samples can tell: these were too short.
            self._keep(elapsed / unattributed if unattributed > 0 else 0.0)
            unattributed = self._left()
        worked = min(unattributed, elapsed)
        self._after += worked
        self._worked_outside += worked
        self._elsewhere += elapsed - worked
        if not self._ran_ahead:
            self._unattributed.clear()
        self._ended = now

    def _time_anew(self) -> None:
        """Count unattributed runs by what is known of them now: a first call may take 1.6 times as long as the next."""
        for run in self._unattributed:
            per_run = self._runs.seconds_of(run)
            if per_run is not None and self._per_run[run] > 0:
                self._unattributed[run] *= per_run / self._per_run[run]
                self._per_run[run] = per_run

    def _all_is_seen_done(self) -> bool:
        """Whether completions show that the device was done with all steps when the host left the loop."""
        done, last = self._newest_completed, self._last
        seen = done is not None and last is not None and done.step >= last[0]
        return self._host_waits() or (seen and done is not None and done.time <= (self._ended or 0))

    def _works_on(self) -> bool | None:
        timed = {run: self._runs.timed_runs(run) for run in self._untimed.keys() | self._per_run.keys()}
        steps, wall = self._steps - self.entry.steps, self._wall - self._settled_wall
        return works_on(self._unattributed, self._untimed, timed, steps, wall)

    def _per_step(self) -> float:
        """Device seconds of a step, of those that were timed."""
        return self._dispatched / max(1, self._steps - self._steps_left_out)

    def _left(self) -> float:
        """Unattributed seconds of all runs."""
        return sum(self._unattributed.values())

    def _keep(self, share: float) -> None:
        """Keep this share of the unattributed seconds, and drop the rest."""
        kept = {run: amount * share for run, amount in self._unattributed.items()} if share > 0 else {}
        self._unattributed = defaultdict(float, kept)
