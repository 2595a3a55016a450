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
from jaxobs.vocabulary.units import duration

CLOCKS: Final = 1.1
"""Largest ratio of sums of sampled times to the wall clock: samples are right to within a few per cent."""

PEAK: Final = 1.5
"""Largest ratio to a peak. Clocks may be above the nominal one (by a third on processors), and a peak may have been
measured on a machine that was a little busy. A very busy machine gave a fifth of the true peak: nothing is shown
against such a peak."""

CACHE: Final = 30.0
"""Largest ratio to the memory peak where data stays in cache. `jaxobs calibrate` saw a factor of 8 between working sets
of 256 KiB and 256 MiB on two cores; a host with many cores has as many private caches for one memory."""

SAMPLES: Final = 2.0
"""Largest ratio of a step's sampled runs to the step. Samples are from other moments, and on a loaded machine the same
step was seen to take 7 s and 13 s within a minute."""

WHOLE: Final = 0.01
"""By what share the sum of shares may differ from 1, and the sum of a loop's components from its wall time."""

PACE: Final = 2.0 + 1e-9
"""Largest product of rate and step time, where nothing but steps is in the rate's seconds. It may be exactly two, as
for two steps of which one was timed; the small term keeps rounding from deciding then."""

RATES: Final = ("steps_per_second", "examples_per_second", "tokens_per_second")
"""Figures that are too high where the host has dispatched many steps that its device has not begun."""

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

    def loop(self, name: str, view: LoopView) -> LoopView:
        """The view of the loop of that name, without contradictions."""
        return self._checked((name,), view, loop_contradictions(view))

    def executable(self, view: ExecutableView, room: float) -> ExecutableView:
        """The view of an executable, without contradictions; its runs had `room` seconds, on all devices together."""
        return self._checked(view.labels, view, executable_contradictions(view, room))

    def _checked(self, labels: tuple[str, ...], view: View, contradictions: Iterator[Contradiction]) -> View:
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
    """Contradictions of an executable: device time too long for `room` seconds, or too short for the work."""
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
    """Contradictions of a loop: utilisation above a peak, parts that miss the whole, times and rates that disagree."""
    for key, ratio in (("mfu", view.mfu.value), ("hfu", view.hfu.value)):
        if ratio is not None and ratio > PEAK:
            yield Contradiction((key,), f"{key.upper()} would be {ratio:.3g} of the peak; {PEAKS_AGAIN}")
    shares, parts, wall = view.bottleneck.shares, view.components.value, view.wall_seconds
    if shares and abs(sum(shares.values()) - 1.0) > WHOLE:
        yield Contradiction(
            ("bottleneck",), f"shares that add up to {sum(shares.values()):.3g}, and not to 1"
        )
    if parts and abs(sum(parts.values()) - wall) > WHOLE * wall:
        why = f"parts of {duration(sum(parts.values()))} in all, and a wall time of {duration(wall)}"
        yield Contradiction(("components",), why)
    step, rate, device = (
        each.value for each in (view.step_seconds, view.steps_per_second, view.device_seconds_per_step)
    )
    by_completions = view.step_seconds_source.value == "completions"  # measured on the device
    if step is not None and rate is not None and step * rate > PACE:
        why = f"steps of {duration(step)} and {rate:.3g} a second contradict each other"
        yield Contradiction(RATES if by_completions else ("step_seconds",), why)
    if step is not None and device is not None and device > SAMPLES * step:
        why = f"a step of {duration(step)} has runs of {duration(device)} in it"
        yield Contradiction(("device_seconds_per_step" if by_completions else "step_seconds",), why)
