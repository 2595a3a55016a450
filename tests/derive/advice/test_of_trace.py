"""Advice on a recorded trace: what it alone can tell, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jaxobs.derive.advice import advise_on_trace
from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bounds import bound_time
from jaxobs.roofline_model.operation_work import Work
from jaxobs.roofline_model.traced import Operation, Profiled, ProfiledDevice
from tests.derive import traced
from tests.derive.advice.documents import GPU

STEPS = 10
H100 = Peaks(
    "NVIDIA H100", {dtype: Peak(rate, "datasheet", "") for dtype, rate in GPU.items()}, {}, None,
    Peak(3.35e12, "datasheet", ""), (), None, 80e9, None,
)  # fmt: skip


def a_trace(
    dtype: str = "bfloat16", flops: float = 1e14, *, executions: int = 20, seconds: float = 1.0,
    self_seconds: float = 1.0, gap: float = 0.0, exposed: tuple[float, float] = (0.0, 0.0), unmodelled: float = 0.05,
) -> Profiled:  # fmt: skip
    """Two devices that ran one operation in half of a second."""
    cost = Cost({dtype: flops}, {dtype: flops}, bytes=flops / 1e4)
    work = Work(seconds, self_seconds, executions, self_seconds, cost, [bound_time(cost, H100)])
    operation = Operation(
        "gemm.1", "jit_train_step", "abc", "custom-call", "compute", "", "", "", (), 20, executions, 2, work
    )
    busy = replace(traced.device([], gap=gap), kind="NVIDIA H100", span_seconds=1.0, busy_seconds=0.5)
    return Profiled(
        [
            ProfiledDevice(
                replace(busy, exposed_communication_seconds=each),
                H100,
                work=Work(unmodelled_seconds=unmodelled / 2),
            )
            for each in exposed
        ],
        {("jit_train_step", "abc", "gemm.1"): operation},
    )


def conditions_of(profiled: Profiled, steps: int = STEPS) -> list[str]:
    return [piece["condition"] for piece in advise_on_trace(profiled, steps)]


def test_a_trace_in_good_order() -> None:
    assert conditions_of(a_trace()) == []


@pytest.mark.parametrize("executed", ["float32", "tensorfloat32"])
def test_products_in_float32(executed: str) -> None:
    (piece,) = advise_on_trace(a_trace(executed), STEPS)
    assert (piece["condition"], piece["function"]) == ("slow_element_type", "jit_train_step")
    # Half of the span, of that what the products take at least in TensorFloat-32, of that a half.
    assert piece["saves_ratio"] == pytest.approx(0.5 * (1e14 / 494.7e12) / 2)
    assert conditions_of(a_trace(executed, unmodelled=0.95)) == []


def test_products_beside_others_are_held_against_their_part_of_the_device() -> None:
    (piece,) = advise_on_trace(a_trace("float32", self_seconds=4.0), STEPS)
    assert piece["saves_ratio"] == pytest.approx(0.5 * (1e14 / 494.7e12) / 2)


def test_exposed_communication_of_all_devices() -> None:
    (piece,) = advise_on_trace(a_trace(exposed=(0.0, 0.4)), STEPS)
    assert piece["sentence"].startswith("In the trace the devices wait for collectives 20 %")
    assert piece["saves_ratio"] == pytest.approx(0.2)
    assert "loop" not in piece


def test_many_small_operations_in_a_step() -> None:
    small: dict[str, Any] = {"flops": 1e10, "executions": 100_000, "seconds": 0.8, "self_seconds": 0.8}
    (piece,) = advise_on_trace(a_trace(**small), STEPS)
    assert piece["condition"] == "small_operations"
    assert "spends 40 % " in piece["sentence"]
    (piece,) = advise_on_trace(a_trace(**small, gap=0.2), STEPS)
    assert "spends 60 % " in piece["sentence"]
    assert "5,000 a step or more take 50 µs or less" in piece["sentence"]
    assert conditions_of(a_trace(**small, gap=0.2), steps=0) == []  # of no known number of steps


def test_what_a_trace_does_not_tell_is_no_reason_for_advice() -> None:
    whole = a_trace("float32")
    assert conditions_of(replace(whole, devices=[])) == []
    assert conditions_of(replace(whole, operations={})) == []
    without_bounds = a_trace("float32")
    for operation in without_bounds.operations.values():
        operation.work.bounds.clear()
    assert conditions_of(without_bounds) == []
