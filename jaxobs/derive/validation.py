"""Withholds numbers of a snapshot that contradict each other, with a reason that names both.

The tolerances are what the figures may be off by, and no more. A contradiction is a fault of jaxobs, of a clock or of a
peak, and the two numbers do not tell which of them is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.model.figure import Figure
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.roofline_model.bounds import CACHE, PEAK
from jaxobs.vocabulary.units import duration

CLOCKS: Final = 1.1
"""Largest ratio of sums of sampled times to the wall clock: samples are right to within a few per cent."""

PEAKS_AGAIN: Final = (
    "peaks that were measured on a busy machine are too low: `jaxobs calibrate` measures them again"
)

RESIDENT: Final = "stayed in cache"


class Contradiction(NamedTuple):
    """A contradiction between the figures `keys` of a loop or of an executable, or with another one."""

    keys: tuple[str, ...]
    why: str


View = TypeVar("View", LoopView, ExecutableView)


class Validation:
    """Checks what is shown of each loop and executable, and counts each contradiction once."""

    def __init__(self) -> None:
        self._found: set[tuple[tuple[str, ...], str]] = set()
        """The contradictions so far: labels of the loop or executable, and key of the figure."""

    def checked(self, labels: tuple[str, ...], view: View, contradictions: Iterator[Contradiction]) -> View:
        """The view without its contradictions; `labels` are those of the loop or executable."""
        found = list(contradictions)
        self._found |= {(labels, key) for keys, _ in found for key in keys}
        return withheld(view, found)

    def contradictions(self) -> Counter[str]:
        """How many figures of each name were withheld so far."""
        return Counter(key for _, key in self._found)


def withheld(view: View, found: Iterable[Contradiction]) -> View:
    """The view without the figures in contradictions, each with the contradiction as its reason."""
    for keys, why in found:
        absent: dict[str, Any] = {key: Figure(None, why) for key in keys}
        if {"seconds_per_run", "bottleneck"} & set(keys):  # the bottleneck was derived from the time of a run
            absent["bottleneck"] = Verdict("unknown", 0.0, None, reason=why)
        view = replace(view, **absent)
    return view


def executable_contradictions(view: ExecutableView, room: float) -> Iterator[Contradiction]:
    """Contradictions of an executable: device time too long for `room` seconds, or too short for the work.

    `room` is what its runs had, on all devices together.
    """
    of_time = ("seconds", "seconds_per_run", "achieved_flops_per_second", "efficiency")
    spent, near, per_run = view.seconds.value, view.efficiency, view.seconds_per_run.value or 0.0
    if spent is not None and spent > CLOCKS * room:
        runs = view.runs.value or 0
        yield Contradiction(of_time, f"{runs:g} runs of {duration(per_run)} do not fit into {duration(room)}")
    elif near.value is not None and near.value > (CACHE if RESIDENT in (near.reason or "") else PEAK):
        yield Contradiction(
            of_time,
            f"a bound of {duration(view.bound_seconds.value or 0.0)} and a run of {duration(per_run)} "
            f"contradict each other by a factor of {near.value:.3g}; {PEAKS_AGAIN}",
        )


def loop_contradictions(view: LoopView) -> Iterator[Contradiction]:
    """Contradictions of a loop: utilisation above a peak. Its other figures are of one sum, and cannot disagree."""
    for key, ratio in (("mfu", view.mfu.value), ("hfu", view.hfu.value)):
        if ratio is not None and ratio > PEAK:
            yield Contradiction((key,), f"{key.upper()} would be {ratio:.3g} of the peak; {PEAKS_AGAIN}")
