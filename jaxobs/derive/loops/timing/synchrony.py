"""Whether the host waits for the device in each step, or runs ahead of it."""

from __future__ import annotations

from collections import deque

from jaxobs.derive.loops.timing.turns import TurnLog
from jaxobs.model.events import StepCompleted

REMEMBERED = 5
ENOUGH = 3
"""Completions that must all have come within their own steps. A host that waits in each tenth step is seen waiting
three times in a row by chance once in a thousand."""

SURE = 0.5
"""Share of a step to which a completion must be known to show whether it came in its own step or in a later one."""


class Synchrony:
    """Whether the host of one loop waits for each step, by the loop's newest completions."""

    def __init__(self) -> None:
        self._in_their_steps: deque[bool] = deque(maxlen=REMEMBERED)

    def completed(self, event: StepCompleted, turns: TurnLog) -> None:
        """Note whether the device was done with a step by the end of the host's turn, which is known."""
        end, usual = turns.end_of(event.step), turns.mean_duration()
        if end is not None and usual is not None and event.uncertainty <= SURE * usual:
            self._in_their_steps.append(event.time - event.uncertainty <= end)

    def host_was_ahead(self) -> None:
        """Note that no output of a step could be polled: the next call may have taken it while the device was busy.

        The steps whose completions are seen are then the others, and say nothing of this one.
        """
        self._in_their_steps.append(False)

    @property
    def host_waits(self) -> bool:
        """Whether the device was done with each step by the end of the host's turn: the turn is the step time."""
        return len(self._in_their_steps) >= ENOUGH and self.host_seems_to_wait

    @property
    def host_seems_to_wait(self) -> bool:
        """Whether each completion so far, one at least, came within its own step; it may have done so by chance."""
        return bool(self._in_their_steps) and all(self._in_their_steps)
