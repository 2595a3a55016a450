"""A function that may turn out to be the main one of a loop: its calls, and the turns that they make."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxobs.model.events import StepRows

TURNS, TURNS_SECONDS = 2, 1.0
"""A loop has at least this many turns, which take this many seconds without compiles: fewer do not show its pace."""

LONG_TURN = 2.0
"""Seconds of a single turn, without compiles, that are enough for a loop: an epoch in one call is called few times."""


class Call(NamedTuple):
    """One call of a watched function outside marked steps.

    `number` counts such calls, `start` is in monotonic nanoseconds, `dispatch` is the nanoseconds that the call took.
    """

    number: int
    start: int
    dispatch: int
    thread: int
    run: int
    function: str


@dataclass(slots=True)
class Candidate:
    """A function that may be a loop's main one. `beside`: the most calls of each other function in one turn."""

    function: str
    turns: int = 0
    steps: int = 0
    seconds: float = 0.0
    found: bool = False
    last_call: int = 0
    beside: Counter[str] = field(default_factory=Counter)
    held: list[tuple[list[Call], int]] = field(default_factory=list)
    """Turns to be reported if this becomes a loop: the calls of each, and when it ended."""

    def is_loop(self, newest: float) -> bool:
        """Whether its turns so far make a loop; `newest`: seconds of the newest turn."""
        return (self.turns >= TURNS and self.seconds >= TURNS_SECONDS) or newest >= LONG_TURN


class Followed(NamedTuple):
    """What unmarked calls turned out to be: `rows` of steps in order of time, or calls by run that belong to no loop.

    `saved`: nanoseconds of checkpoints within a step, by the step's loop and number.
    """

    rows: StepRows
    outside: Counter[int]
    saved: dict[tuple[str, int], int]
