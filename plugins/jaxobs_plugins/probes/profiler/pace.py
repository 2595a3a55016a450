"""Measures how fast the job's steps follow each other, and whether it has warmed up, by sampling once a second."""

from __future__ import annotations

from collections import deque

from jaxobs.model.clock import NANOSECONDS
from jaxobs.plugin.protocol import Progress

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


class Pace:
    """The pace of the job; call `look` once a second. All times are seconds of the monotonic clock."""

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
