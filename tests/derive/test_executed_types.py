"""A snapshot names the types in which the device multiplies, and a conditional's dearest branch."""

from __future__ import annotations

from typing import Any

import pytest

from jaxobs.cli.check import peak_notes
from jaxobs.derive.fold import Fold
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.model.cost import Cost, ModuleCost
from jaxobs.model.events import FunctionWatched
from jaxobs.report.measured_run import measured_run
from jaxobs.roofline_model.bounds import bound_time
from tests.derive.made_up import applied, at, backend, created, families, module, new_fold, step, unexplained

H200 = "NVIDIA H200"
DEFAULT = {"float32_flops_by_precision": {"default": 40e12}}


def on_an_h200(**more: Any) -> Fold:
    fold = applied(new_fold(), [backend(H200), created(1), FunctionWatched(-1, "f", "x", at(1))])
    fold.bind_peaks(H200, peaks_for(H200, "gpu"))
    fold.analysed(1, module(60e12, executed_matrix_flops_by_type={"float32": 60e12}, **more))
    return applied(fold, [step(number, 1.0 + number, 2.0 + number, runs=(1,)) for number in range(10)])


def test_the_entry_of_an_executable_names_the_types_of_the_device() -> None:
    snapshot = on_an_h200(**DEFAULT).snapshot(at(12))
    (made,) = snapshot.document["executables"]
    assert made["cost"]["matrix_flops_by_type"] == {"float32": 60e12}
    assert made["cost"]["executed_matrix_flops_by_type"] == {"tensorfloat32": 40e12, "float32": 20e12}
    assert made["bound_seconds"] == pytest.approx(40 / 494.7 + 20 / 67)
    assert unexplained(snapshot.to_dict()) == []


def test_counted_flops_have_the_type_whose_peak_counts() -> None:
    series = families(on_an_h200(**DEFAULT).snapshot(at(12)))["jaxobs_flops_total"]
    assert series["train", "tensorfloat32", "model"] == 10 * 40e12
    assert series["train", "float32", "model"] == 10 * 20e12


def text_of(cost: Cost, kind: str, platform: str) -> str:
    peaks = peaks_for(kind, platform)
    return str(measured_run(ModuleCost("", cost, ()), bound_time(cost, peaks), 1.0, None, 1, peaks))


def test_a_roofline_says_in_which_type_float32_is_multiplied() -> None:
    asked = Cost({"float32": 60e12}, float32_flops_by_precision={"default": 60e12})
    said = "products asked for in float32 run in "
    assert said + "tensorfloat32 here" in text_of(asked, H200, "gpu")
    assert said + "bfloat16 here" in text_of(asked, "TPU v4", "tpu")
    assert said not in text_of(Cost({"float32": 60e12}), H200, "gpu")
    assert said not in text_of(asked, "Tesla V100-SXM2-16GB", "gpu")


def test_peaks_say_what_the_device_makes_of_float32() -> None:
    lines = peak_notes(peaks_for("TPU v4", "tpu").to_dict())
    assert "  float32 products at `default` precision run in bfloat16" in lines
    assert "  float32 products at `highest` precision run in bfloat16, 6 passes" in lines
    assert not any("precision" in line for line in peak_notes(peaks_for("Tesla T4", "gpu").to_dict()))
