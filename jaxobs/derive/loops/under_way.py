"""A run that lasts for long is known of while it lasts: a training that is one call would be nothing until its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import ExecutableRan, RunUnderWay, StepCompleted

FRESH = 5 * NANOSECONDS
"""A run that was not seen for this long may have ended. It is told of once a second, and arrives a second later."""

NONE_SEEN = "no run of a watched function is known to have lasted for two seconds by now"


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

    def document(self, now: int, function_of: Callable[[int], str]) -> dict[str, Any]:
        """`running`: the function, and for how many seconds it is known to have run; or why there is none."""
        newest = self.at(now)
        if newest is None:
            return {"running": None, "running_reason": NONE_SEEN}
        told = {"function": function_of(newest.run), "seconds": seconds(newest.time - newest.start)}
        return {"running": told, "running_reason": None}
