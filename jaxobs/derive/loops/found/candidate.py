"""What is known of a loop that may be one: its calls, and the turns they make."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxobs.model.events import StepRows

TURNS, TURNS_SECONDS = 2, 1.0
"""A loop has at least so many turns, which take so long without compiles: less tells nothing about its pace."""

LONG_TURN = 2.0
"""Seconds of a single turn, without compiles, that make a loop: an epoch in one call is called few times."""


class Call(NamedTuple):
    """One call of a watched function outside marked steps: `number` counts them, times are monotonic nanoseconds."""

    number: int
    start: int
    dispatch: int
    thread: int
    run: int
    function: str


@dataclass(slots=True)
class Candidate:
    """A function that may be a loop's main one. `beside`: how often a turn calls each other function, at most."""

    function: str
    turns: int = 0
    steps: int = 0
    seconds: float = 0.0
    found: bool = False
    last_call: int = 0
    beside: Counter[str] = field(default_factory=Counter)
    held: list[tuple[list[Call], int]] = field(default_factory=list)
    """Turns that are reported when it has become a loop: their calls, and when each ended."""

    def is_loop(self, longest: float) -> bool:
        """By what its turns are so far; `longest` seconds is the longest of them."""
        return (self.turns >= TURNS and self.seconds >= TURNS_SECONDS) or longest >= LONG_TURN


class Followed(NamedTuple):
    """What calls turned out to be: rows of steps, in order of time, and calls by run that belong to no loop.

    `saved`: nanoseconds of checkpoints within a step, by its loop and number.
    """

    rows: StepRows
    outside: Counter[int]
    saved: dict[tuple[str, int], int]
