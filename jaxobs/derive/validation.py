"""Withholds numbers of a snapshot that contradict each other, with a reason that names both.

The tolerances are what the figures may be off by, and no more. A contradiction is a fault of jaxobs, of a clock or of a
peak, and the two numbers do not tell which of them is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

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

OF_TIME: Final = ("seconds", "seconds_per_run", "achieved_flops_per_second", "efficiency")
"""Figures of an executable that rest on the time of a run; its bottleneck does too."""


def checked_executable(view: ExecutableView, room: float) -> ExecutableView:
    """The view without device time that is too long for `room` seconds, or too short for the work.

    `room` is what its runs had, on all devices together.
    """
    spent, near, per_run = view.seconds.value, view.efficiency, view.seconds_per_run.value or 0.0
    if spent is not None and spent > CLOCKS * room:
        runs = view.runs.value or 0
        why = f"{runs:g} runs of {duration(per_run)} do not fit into {duration(room)}"
    elif near.value is not None and near.value > (CACHE if RESIDENT in (near.reason or "") else PEAK):
        why = (
            f"a bound of {duration(view.bound_seconds.value or 0.0)} and a run of {duration(per_run)} "
            f"contradict each other by a factor of {near.value:.3g}; {PEAKS_AGAIN}"
        )
    else:
        return view
    absent: dict[str, Any] = dict.fromkeys(OF_TIME, Figure(None, why))
    return replace(view, **absent, bottleneck=Verdict("unknown", 0.0, None, reason=why))


def checked_loop(view: LoopView) -> LoopView:
    """The view without utilisation above a peak. Its other figures are of one sum, and cannot disagree."""
    for key, ratio in (("mfu", view.mfu.value), ("hfu", view.hfu.value)):
        if ratio is not None and ratio > PEAK:
            absent: dict[str, Any] = {
                key: Figure(None, f"{key.upper()} would be {ratio:.3g} of the peak; {PEAKS_AGAIN}")
            }
            view = replace(view, **absent)
    return view
