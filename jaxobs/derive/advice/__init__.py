"""Advice that makes a job faster, or keeps it alive: each with a cause, a number and a remedy. Facts in, plain data out.

An advice is one function in a file beside this one, and its place in CONDITIONS. It gets the `Facts` and yields a
`Finding` for each place where it holds; none guesses, an absent number triggers nothing. Its docstring says when it
fires, what it gives back and why so: docs/reference/advice.md is written from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from jaxobs.derive.advice.facts import Facts, Finding, facts_of
from jaxobs.derive.advice.of_compiles import MIN_SAVED, persistent_cache, recompilation
from jaxobs.derive.advice.of_loops import (
    exposed_communication,
    host_work,
    input_wait,
    small_operations,
)
from jaxobs.derive.advice.of_work import (
    donation,
    memory_exhaustion,
    slow_element_type,
    small_batch,
    throttled_device,
)
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.model.figure import figure

Condition = Callable[[Facts], Iterator[Finding]]

CONDITIONS: Final[tuple[Condition, ...]] = (
    memory_exhaustion, recompilation, persistent_cache, input_wait, host_work, exposed_communication, small_operations,
    small_batch, slow_element_type, throttled_device, donation,
)  # fmt: skip

MAX_PIECES: Final = 5
"""Pieces of advice given at a time: nobody would read more."""

URGENT_SECONDS: Final = 3_600.0
"""What ends the job within this time comes before everything that would make it faster."""

NO_SECONDS = "it gives back no time"
ONCE = "it is spent once, at each start"


def advise(view: SnapshotView) -> list[dict[str, Any]]:
    """The advice on a snapshot: what is urgent, then what saves the most seconds, then what saves only memory.

    Each piece has `condition`, `loop`, `function` or `device`, `sentence`, `remedy`, `confidence`, `saves_ratio` (of
    the wall time) and `seconds_per_hour`, which is None for what is spent at a start alone. If it saves no time these two
    are None, and it has `saves_bytes` or `seconds_left`.
    """
    facts = facts_of(view)
    found = [
        (condition.__name__, finding)
        for condition in CONDITIONS
        for finding in condition(facts)
        # What saves no time was filtered by its condition.
        if finding.saves_ratio is None or finding.saves_ratio >= MIN_SAVED
    ]
    found.sort(key=lambda pair: _rank(pair[1]))
    # One piece for each condition and place: of a function's several executables, the one that would save most.
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, finding in found:
        place = (name, *(finding.subject.get(key, "") for key in ("loop", "function")))
        first.setdefault(place, _piece(name, finding))
    return list(first.values())[:MAX_PIECES]


def _rank(finding: Finding) -> tuple[float, ...]:
    left = finding.seconds_left
    is_urgent = left is not None and left <= URGENT_SECONDS
    return (
        left if is_urgent and left is not None else URGENT_SECONDS + 1,
        -(finding.saves_ratio or 0.0),
        float("inf") if left is None else left,
        -(finding.saves_bytes or 0.0),
    )


def _piece(condition: str, finding: Finding) -> dict[str, Any]:
    hourly = None if finding.saves_ratio is None or finding.is_once else finding.saves_ratio * 3_600
    piece: dict[str, Any] = {
        "condition": condition,
        **finding.subject,
        "sentence": _sentence(finding.sentence),
        "remedy": _sentence(finding.remedy),
        "confidence": finding.confidence,
        **figure(finding.saves_ratio, NO_SECONDS).under("saves_ratio"),
        **figure(hourly, ONCE if finding.is_once else NO_SECONDS).under("seconds_per_hour"),
    }
    more = {"saves_bytes": finding.saves_bytes, "seconds_left": finding.seconds_left}
    return piece | {key: value for key, value in more.items() if value is not None}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
