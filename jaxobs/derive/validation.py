"""Numbers of a snapshot that contradict each other are not shown: each is withheld, with a reason that names both.

Pure. The tolerances are what the figures may be off by, and no more. A contradiction is a fault of ours, of a clock or of
a peak, and which of the two numbers is wrong cannot be told from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from jaxobs.model.wording import duration

CLOCKS: Final = 1.1
"""Sums of sampled times against the wall clock: samples are right to within some per cent."""

PEAK: Final = 1.5
"""What may be above a peak: clocks above the nominal one, a peak that was measured on a busy machine."""

CACHE: Final = 30.0
"""What may be above the peak of memory where data stays in cache: the innermost is that much faster than memory."""

PACE: Final = 2.0
"""Rate times step time, where nothing but steps is in the rate's seconds."""

RATES: Final = ("steps_per_second", "examples_per_second", "tokens_per_second")
"""Of a host that has dispatched many steps, which its device has not begun, these are too high."""

RESIDENT: Final = "stayed in cache"


class Contradiction(NamedTuple):
    """`keys` of a loop, by its name, or of an executable, by its place in the list, say what cannot be."""

    section: str
    place: Any
    keys: tuple[str, ...]
    why: str


def contradictions(document: Mapping[str, Any]) -> list[Contradiction]:
    """All of a snapshot's document."""
    wall = document["process"].get("seconds")
    found: list[Contradiction] = []
    for place, executable in enumerate(document.get("executables") or []):
        found += _of_executable(place, executable, wall)
    for name, loop in (document.get("loops") or {}).items():
        found += _of_loop(name, loop)
    return found


def withheld(document: Mapping[str, Any], found: list[Contradiction]) -> dict[str, Any]:
    """The document without these figures; what it shares with older ones is left as it is."""
    shown = dict(document)
    for section, place, keys, why in found:
        entries = shown[section]
        if entries is document[section]:
            entries = shown[section] = entries.copy()
        absent = dict.fromkeys(keys) | {f"{key}_reason": why for key in keys}
        entries[place] = {**entries[place], **absent}
    return shown


def _of_executable(place: int, made: Mapping[str, Any], wall: float | None) -> Iterator[Contradiction]:
    of_time = ("seconds", "seconds_per_run", "achieved_flops_per_second", "efficiency")
    spent, near = made.get("seconds"), made.get("efficiency")
    if spent is not None and wall is not None and spent > CLOCKS * wall:
        why = f"{made['runs']:g} runs of {duration(made['seconds_per_run'])} do not fit into {duration(wall)}"
        yield Contradiction("executables", place, of_time, why)
    elif near is not None:
        most = CACHE if RESIDENT in (made.get("efficiency_reason") or "") else PEAK
        if near > most:
            why = (
                f"a bound of {duration(made['bound_seconds'])} and a run of {duration(made['seconds_per_run'])} "
                f"contradict each other: no peak is wrong by a factor of {near:.3g}"
            )
            yield Contradiction("executables", place, of_time, why)


def _of_loop(name: str, loop: Mapping[str, Any]) -> Iterator[Contradiction]:
    for key in ("mfu", "hfu"):
        ratio = loop.get(key)
        if ratio is not None and ratio > PEAK:
            why = f"{key.upper()} would be {ratio:.3g} of the peak: no peak is wrong by so much"
            yield Contradiction("loops", name, (key,), why)
    step, rate = loop.get("step_seconds"), loop.get("steps_per_second")
    if step is not None and rate is not None and step * rate > PACE:
        why = f"steps of {duration(step)} and {rate:.3g} a second contradict each other"
        by_completions = loop.get("step_seconds_source") == "completions"  # which are the device's own
        yield Contradiction("loops", name, RATES if by_completions else ("step_seconds",), why)
