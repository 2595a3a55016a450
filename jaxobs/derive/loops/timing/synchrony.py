"""Whether the host waits for the device in each step, or runs ahead of it."""

from __future__ import annotations

from collections import deque

from jaxobs.derive.loops.timing.turns import TurnLog
from jaxobs.model.events import StepCompleted

REMEMBERED = 5
ENOUGH = 3
"""Completions that all say so. A host that waits in each tenth step is seen waiting three times in a row by chance in
one of a thousand."""

SURE = 0.5
"""A completion that is known to half a step tells whether it came in its own step or in a later one."""


class Synchrony:
    """Whether the host of one loop waits for each step, by the loop's newest completions."""

    def __init__(self) -> None:
        self._in_their_steps: deque[bool] = deque(maxlen=REMEMBERED)

    def completed(self, event: StepCompleted, turns: TurnLog) -> None:
        """The device was done with a step whose turn is known."""
        end, usual = turns.end_of(event.step), turns.mean_duration()
        if end is not None and usual is not None and event.uncertainty <= SURE * usual:
            self._in_their_steps.append(event.time - event.uncertainty <= end)

    def host_was_ahead(self) -> None:
        """A call was made while the device was busy with the one before it: steps that are seen to end are the others."""
        self._in_their_steps.append(False)

    @property
    def host_waits(self) -> bool:
        """Whether the device was done with each step by the end of the host's turn: so long did the step take."""
        return len(self._in_their_steps) >= ENOUGH and all(self._in_their_steps)
