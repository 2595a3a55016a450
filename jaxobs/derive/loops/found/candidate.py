"""A function that may turn out to be the main one of a loop: its calls, and the turns that they make."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from jaxobs.model.events import StepRows

TURNS, TURNS_SECONDS = 2, 1.0
"""A loop has at least this many turns, which take this many seconds without compiles: fewer do not show its pace."""

LONG_TURN = 2.0
"""Seconds of a single turn, without compiles, that are enough for a loop: an epoch in one call is called few times."""

UNTIMED_TURNS = 3
"""Turns for which it is waited until runs have been timed: the first compile, and later ones may be sampled."""

NEXT_TO_NOTHING = 1e-9
"""Seconds of a function for whose runs the others' left no time."""

FAR_LONGER = 2.0
"""Times the device's seconds on the first function of each turn from which on another is the main one: an evaluation
that a library makes before each epoch is not what is trained."""


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

    def is_minor(self, seconds_of: Callable[[int], float | None]) -> bool | None:
        """Whether each of its turns calls another function, too, on which the device works far longer.

        None where more than one function of each turn has no timed run yet, for a few turns: a run that lasts is timed
        up to a second after its end. An untimed run takes as long as the function's timed ones do on average. Where the
        runs of one function alone are untimed, it may have all seconds of the turns but the others'.
        """
        calls_of, timed = Counter[str](), defaultdict[str, list[float]](list)
        for call in (call for calls, _ in self.held for call in calls):
            calls_of[call.function] += 1
            if one := seconds_of(call.run):
                timed[call.function].append(one)
        device_seconds = {
            function: count * fmean(timed[function] or (0.0,)) for function, count in calls_of.items()
        }
        in_each = set.intersection(*({call.function for call in calls} for calls, _ in self.held))
        untimed = [function for function in in_each if not device_seconds[function]]
        if len(untimed) == 1:
            left = self.seconds - sum(device_seconds.values())
            device_seconds[untimed[0]] = max(left, NEXT_TO_NOTHING)
        elif untimed and self.turns < UNTIMED_TURNS:
            return None
        others = [device_seconds[function] for function in in_each - {self.function}]
        return 0.0 < FAR_LONGER * device_seconds[self.function] < max(others, default=0.0)


class Followed(NamedTuple):
    """What unmarked calls turned out to be: `rows` of steps in order of time, or calls by run that belong to no loop.

    `saved`: nanoseconds of checkpoints within a step, by the step's loop and number.
    """

    rows: StepRows
    outside: Counter[int]
    saved: dict[tuple[str, int], int]
