"""All loops of the job by name: those that the user marked, and those that were found."""

from __future__ import annotations

import contextlib
from itertools import chain, repeat

from jaxobs.derive.loops.found import LOOPS, InferredLoops
from jaxobs.derive.loops.host_lines import HostLine, HostLines
from jaxobs.derive.loops.loop import Loop, RoomsOfLoops
from jaxobs.derive.refusal import is_amount, require
from jaxobs.derive.steps import Steps
from jaxobs.model.clock import seconds
from jaxobs.model.events import LoopEntered, MainThreadSampled, Recorded
from jaxobs.vocabulary.activities import ACTIVITIES
from jaxobs.vocabulary.text import MAX_LOOP_NAMES

MAX_LOOPS = MAX_LOOP_NAMES + 1 + LOOPS + 1
"""Most loops: those marked, the one of further names, those found, and one of recorded values. Events of more are refused
and counted."""

ROUNDING = 1e-3
"""Seconds by which the samples of about a second may add up to more than it."""


class Loops:
    """All loops by name, each created when it is first named."""

    def __init__(self, rooms: RoomsOfLoops) -> None:
        self._rooms = rooms
        self.by_name: dict[str, Loop] = {}
        self._newest: dict[int, Loop] = {}
        """The loop of each thread's newest steps."""
        self.inferred = InferredLoops(
            rooms.executables.title_of, rooms.compiles.overlap, rooms.executables.seconds_of
        )
        self.outside = HostLines()
        """Where the main thread was outside loops."""
        self._unplaced: dict[str, Recorded] = {}
        """Newest recorded values, by name, that name no loop while one may still be found."""

    def of(self, steps: Steps) -> Loop:
        """The loop of steps that ended. Where those before them on their thread are another loop's, it is told."""
        loop, before = self.named(steps.loop), self._newest.get(steps.thread)
        if before is not None and before is not loop:
            before.stretches.followed_by(loop.stretches, steps)
        self._newest[steps.thread], loop.thread = loop, steps.thread
        return loop

    @property
    def steps(self) -> int:
        """Steps of all loops so far."""
        return sum(loop.steps for loop in self.by_name.values())

    def named(self, name: str) -> Loop:
        """The loop of that name. Raises ValueError where there are too many already."""
        loop = self.by_name.get(name)
        if loop is None:
            if len(self.by_name) >= MAX_LOOPS:
                raise ValueError(f"more than {MAX_LOOPS} loops")
            loop = self.by_name[name] = Loop(name, self._rooms)
        return loop

    def infer(self, name: str) -> bool:
        """Mark the loop of that name as inferred. False, with the reason noted, where there are too many already."""
        try:
            self.named(name).inferred = True
        except ValueError as error:
            self._rooms.refusals.note(f"{name}: {error}")
            return False
        return True

    def entered(self, event: LoopEntered) -> None:
        """A marked loop has begun its first step."""
        self.named(event.loop).entered()

    def marked(self, by: Steps) -> None:
        """Note that steps of a loop are marked, though it may have been found before."""
        if by.loop in self.by_name:
            self.by_name[by.loop].inferred = False

    def recorded(self, event: Recorded) -> None:
        """Record a value of the user's; one that names no loop belongs to that under way, or whose step ended last.

        Without any loop it belongs to `train`.
        """
        newest = max(self.by_name.values(), key=lambda loop: loop.last_end or 0, default=None)
        name = event.loop or self.inferred.under_way() or (newest and newest.name)
        if name is None and self.inferred.undecided_since is not None:
            self._unplaced[event.name] = event  # its loop may be found yet
            return
        values, self._unplaced = [*self._unplaced.values(), event], {}
        for value in values:
            self.named(name or "train").record(value)

    def place_recorded(self) -> None:
        """Place the values that wait for a loop: no further loop will be found."""
        with contextlib.suppress(ValueError):  # there are too many loops for one more to hold them
            for event in list(self._unplaced.values()):
                self.recorded(event)

    def main_thread_sampled(self, event: MainThreadSampled) -> None:
        for *_, activity, spent, samples in event.rows:
            require(activity in ACTIVITIES, "an activity that there is not")
            require(is_amount(spent) and samples >= 0, "sampled time that is no duration")
        together, room = sum(row[4] for row in event.rows), seconds(event.end - event.start)
        require(0.0 <= together <= room + ROUNDING, "more samples than there was time")
        found = self.inferred.under_way(event.thread) or ""
        # Of two loops that nobody marked, or of none.
        mixed = bool(found) and self.inferred.entered > event.start
        for row, callers in zip(event.rows, chain(event.callers, repeat(())), strict=False):
            name, line, waits_in, activity, spent, samples = row
            if mixed and not name:
                continue
            loop = self.by_name.get(name or found)
            host = self.outside if loop is None else loop.host
            host.add(HostLine(line, waits_in, activity), spent, samples, callers)
