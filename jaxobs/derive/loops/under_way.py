"""Long runs are shown while they last: otherwise a training in one call would show nothing until its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay, StepCompleted
from jaxobs.model.figure import Figure

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
