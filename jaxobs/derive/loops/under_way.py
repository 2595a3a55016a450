"""A run that lasts for long is known of while it lasts: a training that is one call would be nothing until its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay, StepCompleted
from jaxobs.model.figure import Figure

FRESH = 5 * NANOSECONDS
"""A run that was not seen for this long may have ended. It is reported once a second, and arrives a second later."""

NONE_SEEN = "no run of a watched function is known to have lasted for two seconds by now"


@dataclass(frozen=True, slots=True)
class RunningView:
    """A run that is under way."""

    function: str
    seconds: float


class RunsUnderWay:
    """The newest of them: a device runs one after the other."""

    def __init__(self) -> None:
        self._newest: RunUnderWay | None = None

    def seen(self, event: RunUnderWay) -> None:
        self._newest = event

    def ended(self, event: ExecutableRan | StepCompleted) -> None:
        """The device was done with a run, and so with all that it was given before."""
        if self._newest is not None and event.time >= self._newest.time:
            self._newest = None

    def at(self, now: int) -> RunUnderWay | None:
        """What was under way a moment ago."""
        newest = self._newest
        return newest if newest is not None and now - newest.time <= FRESH else None

    def view(self, now: int, function_of: Callable[[int], str]) -> Figure[RunningView]:
        """The function that runs, and for how long it is known to have run."""
        newest = self.at(now)
        if newest is None:
            return Figure(None, NONE_SEEN)
        return Figure(RunningView(function_of(newest.run), seconds(newest.time - newest.start)))
