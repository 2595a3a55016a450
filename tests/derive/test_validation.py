"""Numbers that contradict each other are shown neither in the snapshot nor as series."""

from __future__ import annotations

from typing import Any

import pytest

from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.snapshot import checked_executable, checked_loop
from jaxobs.model.events import ExecutableRan
from tests.derive.made_up import PEAKS, applied, at, backend, created, families, module, new_fold, step
from tests.derive.views import view_of

ROOM = 10.0
"""Seconds that the runs had."""


def executable(**changed: Any) -> ExecutableView:
    """One that is consistent but for what is given."""
    known = {
        "runs": 100, "seconds": 9.0, "seconds_per_run": 0.09, "bound_seconds": 0.045, "efficiency": 0.5,
        "achieved_flops_per_second": 1e9, "bottleneck": {"label": "compute"},
    }  # fmt: skip
    return view_of(ExecutableView, known | changed)


def loop(**changed: Any) -> LoopView:
    """One that is consistent but for what is given."""
    known = {"mfu": 0.4, "hfu": 0.4, "wall_seconds": 10.0}
    return view_of(LoopView, known | changed)


def shown(view: ExecutableView | LoopView, room: float = ROOM) -> ExecutableView | LoopView:
    """The view as it may be shown."""
    if isinstance(view, LoopView):
        return checked_loop(view)
    return checked_executable(view, room)


@pytest.mark.parametrize("view", [executable(), loop()])
def test_what_agrees_is_shown_as_it_is(view: ExecutableView | LoopView) -> None:
    assert shown(view) is view


@pytest.mark.parametrize(
    ("view", "absent", "named"),
    [
        (executable(seconds=90.0, runs=1000), "seconds_per_run", ["1000", "10 s"]),
        (executable(efficiency=1435.95), "efficiency", ["1.44e+03"]),
        (loop(mfu=7.0), "mfu", ["7"]),
    ],
)
def test_of_two_that_cannot_both_be_the_derived_one_is_withheld_and_both_are_named(
    view: ExecutableView | LoopView, absent: str, named: list[str]
) -> None:
    figure = getattr(shown(view), absent)
    assert figure.value is None
    assert all(number in figure.reason for number in named), figure.reason
    assert getattr(view, absent).value is not None  # older snapshots share it


def test_devices_may_run_one_executable_side_by_side() -> None:
    busy = executable(seconds=70.0)
    assert shown(busy) is not busy
    assert shown(busy, 8 * ROOM) is busy


def test_data_that_stayed_in_cache_may_be_faster_than_memory() -> None:
    resident = "faster than device memory allows: data stayed in cache"
    fast = executable(efficiency=8.0, efficiency_reason=resident)
    assert shown(fast) is fast
    impossible = executable(efficiency=300.0, efficiency_reason=resident)
    assert shown(impossible) is not impossible


def test_an_efficiency_far_above_the_peak_is_no_series() -> None:
    fold = applied(new_fold(), [backend(), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    applied(fold, [step(number, number, number + 1, runs=(1,)) for number in range(10)])
    applied(fold, [ExecutableRan(1, 1e-12, 1e-14, at(9)) for _ in range(12)])
    for moment in (10, 11):
        snapshot = fold.snapshot(at(moment))
    made = snapshot.to_dict()["executables"][0]
    assert made["bottleneck"]["label"] == "unknown"
    assert made["efficiency"] is None
    assert "calibrate" in made["efficiency_reason"]
    series = families(snapshot)
    assert not series.get("jaxobs_executable_efficiency_ratio")
    assert not series.get("jaxobs_executable_bottleneck_info")
