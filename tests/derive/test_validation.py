"""Numbers that contradict each other are shown neither in the snapshot nor as series."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from jaxobs.derive.snapshot.validation import contradictions, withheld
from jaxobs.model.events import ExecutableRan
from tests.derive.made_up import PEAKS, applied, at, backend, created, families, module, new_fold, step


def document(**changed: Any) -> dict[str, Any]:
    """Of one executable and one loop, consistent but for what is given as `loop_…` and `made_…`."""
    made = {
        "runs": 100, "seconds": 9.0, "seconds_per_run": 0.09, "bound_seconds": 0.045, "efficiency": 0.5,
        "efficiency_reason": None, "achieved_flops_per_second": 1e9, "bottleneck": {"label": "compute"},
    }  # fmt: skip
    loop = {
        "step_seconds": 0.1, "steps_per_second": 9.5, "mfu": 0.4, "hfu": 0.4, "device_seconds_per_step": 0.09,
        "wall_seconds": 10.0, "components": {"compute": 9.0, "input": 1.0},
        "bottleneck": {"label": "compute", "shares": {"compute": 0.9, "input": 0.1}},
    }  # fmt: skip
    made |= {key.removeprefix("made_"): value for key, value in changed.items() if key.startswith("made_")}
    loop |= {key.removeprefix("loop_"): value for key, value in changed.items() if key.startswith("loop_")}
    return {"process": {"seconds": 10.0}, "executables": [made], "loops": {"train": loop}}


def test_what_agrees_is_shown_as_it_is() -> None:
    assert contradictions(document()) == []


@pytest.mark.parametrize(
    ("changed", "absent", "named"),
    [
        ({"made_seconds": 90.0, "made_runs": 1000}, "seconds_per_run", ["1000", "10 s"]),
        ({"made_efficiency": 1435.95}, "efficiency", ["1.44e+03"]),
        ({"loop_mfu": 7.0}, "mfu", ["7"]),
        ({"loop_step_seconds": 0.9}, "step_seconds", ["900 ms", "9.5"]),
        ({"loop_device_seconds_per_step": 0.4}, "step_seconds", ["100 ms", "400 ms"]),
        ({"loop_components": {"compute": 19.0}}, "components", ["19 s", "10 s"]),
        (
            {"loop_step_seconds": 0.9, "loop_step_seconds_source": "completions"},
            "steps_per_second",
            ["900 ms", "9.5"],
        ),
    ],
)
def test_of_two_that_cannot_both_be_the_derived_one_is_withheld_and_both_are_named(
    changed: dict[str, Any], absent: str, named: list[str]
) -> None:
    before = document(**changed)
    kept = copy.deepcopy(before)
    shown = withheld(before, contradictions(before))
    entry = {**shown["executables"][0], **shown["loops"]["train"]}
    assert entry[absent] is None
    assert all(number in entry[f"{absent}_reason"] for number in named), entry[f"{absent}_reason"]
    assert before == kept  # older snapshots share it


def test_shares_that_do_not_add_up_are_no_verdict() -> None:
    before = document(loop_bottleneck={"label": "input", "shares": {"input": 0.3}})
    verdict = withheld(before, contradictions(before))["loops"]["train"]["bottleneck"]
    assert (verdict["label"], "0.3" in verdict["reason"]) == ("unknown", True)


def test_devices_may_run_one_executable_side_by_side() -> None:
    busy = document(made_seconds=70.0)
    assert contradictions(busy) != []
    assert contradictions(busy | {"devices": [{}] * 8}) == []


def test_data_that_stayed_in_cache_may_be_faster_than_memory() -> None:
    resident = "faster than device memory allows: data stayed in cache"
    assert contradictions(document(made_efficiency=8.0, made_efficiency_reason=resident)) == []
    assert contradictions(document(made_efficiency=300.0, made_efficiency_reason=resident)) != []


def test_an_efficiency_far_above_the_peak_is_no_series_and_is_counted_once() -> None:
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
    shown = families(snapshot)
    assert not shown.get("jaxobs_executable_efficiency_ratio")
    assert not shown.get("jaxobs_executable_bottleneck_info")
    assert shown["jaxobs_contradictions_total"]["efficiency",] == 1
