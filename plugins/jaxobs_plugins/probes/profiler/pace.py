"""How fast the job's steps follow each other, and whether it has warmed up: from a look once a second."""

from __future__ import annotations

from collections import deque

from jaxobs.model.clock import NANOSECONDS
from jaxobs.plugin.protocol import Progress

CHANGES = 20
"""The pace is that of the last twenty looks at which steps had ended, since the last compile or window."""

QUIET_SECONDS = 3.0
QUIET_STEPS = 3
"""So long after the last compile, and so many steps: the first steps after it still fill caches and pipelines."""

UNMARKED_QUIET_SECONDS = 30.0
"""Where no steps are marked, only the absence of compiles tells that the job has warmed up."""

STANDING_SECONDS = 2.5
"""A loop whose next step is this late, and late by three steps, stands still: it compiles, evaluates, or waits."""


class Pace:
    """Told of the progress once a second. All times are seconds of the monotonic clock."""

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
        """By a window: what was seen before it and what is seen after it are not of one pace."""
        self._changes.clear()

    def is_steady(self) -> bool:
        """Whether the loop runs and nothing was compiled lately."""
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
        """Steps a second, outside windows; None where none were seen."""
        if len(self._changes) < 2:
            return None
        (began, first), (ended, last) = self._changes[0], self._changes[-1]
        return (last - first) / (ended - began) if last > first and ended > began else None

    @property
    def step_seconds(self) -> float | None:
        """Seconds that a step takes; None where no step is seen."""
        rate = self.rate
        return None if rate is None else 1.0 / rate
