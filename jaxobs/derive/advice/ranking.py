"""Selects and ranks advice: at most five pieces, those that save the most time first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jaxobs.derive.advice.conditions import CONDITIONS, Condition
from jaxobs.derive.advice.facts import Facts, facts_of
from jaxobs.derive.advice.finding import LEAST_SAVED
from jaxobs.derive.advice.of_trace import facts_of_trace
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.roofline_model.traced import Profiled

MOST: Final = 5
"""Pieces of advice given at a time: nobody would read more."""


def advise(view: SnapshotView) -> list[dict[str, Any]]:
    """The advice on a snapshot: first what saves the most seconds, then what saves only memory.

    Each piece has `condition`, `loop` or `function`, `sentence`, `remedy`, `confidence`, `saves_ratio` (of the wall
    time) and `seconds_per_hour`; where it saves only memory these two are None and it has `saves_bytes`.
    """
    return _ranked(facts_of(view), CONDITIONS)


def advise_on_trace(profiled: Profiled, steps: int) -> list[dict[str, Any]]:
    """The advice that a recorded trace alone can give; `steps`: how many steps the program marked in it."""
    return _ranked(
        facts_of_trace(profiled, steps), [condition for condition in CONDITIONS if condition.in_a_trace]
    )


def _ranked(facts: Facts, conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    enough = [
        (condition.name, finding)
        for condition in conditions
        for finding in condition.find(facts)
        # What saves memory alone was filtered by its condition.
        if finding.saves_ratio is None or finding.saves_ratio >= LEAST_SAVED
    ]
    enough.sort(key=lambda pair: (pair[1].saves_ratio or 0.0, pair[1].saves_bytes or 0.0), reverse=True)
    # One piece for each condition and place: of a function's several executables, the one that would save most.
    largest: dict[tuple[str, str, str], dict[str, Any]] = {}
    for name, finding in enough:
        place = (name, finding.subject.get("loop", ""), finding.subject.get("function", ""))
        largest.setdefault(place, finding.to_dict(name))
    return list(largest.values())[:MOST]
