"""Bounds of float32 products, which devices multiply in other types."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bounds import bound_time, ceiling, executed_flops, model_flops_utilization, run_on

H200 = peaks_for("NVIDIA H200", "gpu")
TPU = peaks_for("TPU v4", "tpu")
MI300X = peaks_for("AMD Instinct MI300X", "gpu")
CPU = peaks_for("cpu", "cpu", {"matrix.float32": 2e11, "matrix.bfloat16": 1e11, "memory": 2e10})


def of_float32(flops: float, **by_precision: float) -> Cost:
    return Cost({"float32": flops}, {"float32": flops}, float32_flops_by_precision=by_precision)


def test_float32_left_to_the_device_is_held_against_the_type_it_takes() -> None:
    """The default of JAX on an H200: 60 TFLOP/s of such products are 12 % of its peak, not 90 %."""
    asked = of_float32(60e12, default=60e12)
    bound = bound_time(asked, H200)
    assert bound.matrix_seconds == pytest.approx(60 / 494.7)
    assert executed_flops(asked, H200) == {"tensorfloat32": 60e12}
    assert run_on(asked, H200).executed_matrix_flops_by_type == {"tensorfloat32": 60e12}
    used = model_flops_utilization(asked, 1.0, H200)
    assert (used.mfu, used.hfu, used.reason) == (pytest.approx(60 / 494.7), pytest.approx(60 / 494.7), None)


def test_float32_at_the_highest_precision_is_held_against_its_own_peak() -> None:
    both = of_float32(60e12, default=40e12)
    assert executed_flops(both, H200) == {"tensorfloat32": 40e12, "float32": 20e12}
    assert model_flops_utilization(both, 1.0, H200).mfu == pytest.approx(40 / 494.7 + 20 / 67)
    assert executed_flops(of_float32(60e12, high=60e12), H200) == {"float32": 60e12}


def test_rematerialised_float32_is_repeated_at_the_same_peak() -> None:
    cost = replace(
        of_float32(60e12, default=40e12),
        rematerialized_flops_by_type={"float32": 20e12},
        rematerialized_float32_flops_by_precision={"default": 20e12},
    )
    used = model_flops_utilization(cost, 1.0, H200)
    assert used.hfu == pytest.approx(40 / 494.7 + 20 / 67)
    assert used.mfu == pytest.approx(20 / 494.7 + 20 / 67)


def test_a_product_of_bfloat16_that_runs_in_float32_is_held_against_the_type_it_takes() -> None:
    """XLA widens the operands first, and leaves the product's precision to the device."""
    widened = Cost({"bfloat16": 60e12}, {"float32": 60e12}, widened_flops_by_precision={"default": 60e12})
    assert bound_time(widened, H200).matrix_seconds == pytest.approx(60 / 494.7)
    assert bound_time(widened, TPU).matrix_seconds == pytest.approx(60 / 275)
    assert run_on(widened, TPU).executed_matrix_flops_by_type == {"bfloat16": 60e12}
    both = widened + of_float32(60e12, default=20e12)
    assert executed_flops(both, H200) == {"tensorfloat32": 80e12, "float32": 40e12}
    used = model_flops_utilization(both, 1.0, H200).mfu
    assert used == pytest.approx(60 / 989.4 + 20 / 494.7 + 40 / 67, rel=1e-3)


@pytest.mark.parametrize(("by_precision", "passes"), [({"default": 1e12}, 1), ({"high": 1e12}, 3), ({}, 6)])
def test_a_tpu_multiplies_float32_in_passes_of_bfloat16(by_precision: dict[str, float], passes: int) -> None:
    cost = of_float32(1e12, **by_precision)
    bound = bound_time(cost, TPU)
    assert bound.matrix_seconds == pytest.approx(passes * 1e12 / 275e12)
    assert bound.missing == ()
    assert model_flops_utilization(cost, 1.0, TPU).mfu == pytest.approx(passes * 1e12 / 275e12)


@pytest.mark.parametrize(
    ("algorithm", "peaks", "executed", "peak"),
    [
        ("tensorfloat32_x1", H200, {"tensorfloat32": 60e12}, 494.7e12),
        ("bfloat16_x1", H200, {"bfloat16": 60e12}, 989.4e12),
        ("bfloat16_x3", H200, {"bfloat16": 180e12}, 989.4e12),
        ("bfloat16_x3", TPU, {"bfloat16": 180e12}, 275e12),
        ("bfloat16_x3", MI300X, {"bfloat16": 180e12}, 1307.4e12),
        ("bfloat16_x3", CPU, {"float32": 60e12}, 2e11),
    ],
)
def test_float32_by_an_algorithm_is_held_against_the_type_that_it_names_but_on_a_cpu(
    algorithm: str, peaks: Peaks, executed: dict[str, float], peak: float
) -> None:
    """`TF32_TF32_F32` at an H200's peak is an MFU of 1, not of 7; CPUs take no passes, and multiply float32 as such."""
    of_algorithm = of_float32(60e12, **{algorithm: 60e12})
    least = sum(executed.values()) / peak
    assert executed_flops(of_algorithm, peaks) == executed
    assert bound_time(of_algorithm, peaks).matrix_seconds == pytest.approx(least)
    assert model_flops_utilization(of_algorithm, least, peaks).mfu == pytest.approx(1)
    beside = of_algorithm + of_float32(60e12, default=60e12)
    both = bound_time(beside, peaks).matrix_seconds
    assert both == pytest.approx(least + (bound_time(of_float32(60e12, default=60e12), peaks).seconds or 0))
    assert model_flops_utilization(beside, both, peaks).mfu == pytest.approx(1)


def test_the_settings_override_what_the_module_says() -> None:
    asked, highest = of_float32(60e12, default=60e12), of_float32(60e12)
    every = peaks_for("NVIDIA H200", "gpu", tensorfloat32_allowed=True)
    none = peaks_for("NVIDIA H200", "gpu", tensorfloat32_allowed=False)
    for cost in (asked, highest):
        assert bound_time(cost, every).seconds == pytest.approx(60 / 494.7)
        assert bound_time(cost, none).seconds == pytest.approx(60 / 67)


def test_the_roof_of_float32_is_that_of_the_default_precision() -> None:
    assert ceiling(H200, "float32")[-1][1] == 494.7e12
    assert ceiling(TPU, "float32")[-1][1] == 275e12
    assert ceiling(H200, "bfloat16")[-1][1] == 989.4e12
