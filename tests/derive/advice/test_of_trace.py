"""Advice on a recorded trace: what it alone can tell, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from jaxobs.derive.advice import advise_on_trace
from tests.derive.advice.documents import GPU, Document


def traced(**operation: Any) -> Document:
    """Two devices that ran one operation for half of the time, ten steps."""
    peaks = {"matrix": {dtype: {"value": rate} for dtype, rate in GPU.items()}, "memory": {"value": 3.35e12}}
    device = {
        "name": "gpu", "device_kind": "NVIDIA H100", "span_seconds": 1.0, "busy_seconds": 0.5,
        "exposed_communication_seconds": 0.0, "gap_seconds": 0.0, "peaks": peaks,
    }  # fmt: skip
    row = {
        "name": "gemm.1", "module": "jit_train_step", "kind": "custom_call", "label": "compute", "count": 20,
        "executions": 20, "devices": 2, "seconds": 1.0, "self_seconds": 1.0, "share": 1.0, "flops": 1e14,
        "matrix_flops": 1e14,
        "bytes": 1e10, "exact": True, "executed_matrix_flops_by_type": {"bfloat16": 1e14},
    }  # fmt: skip
    return {
        "unmodelled_share": 0.05,
        "devices": [device, {**device, "name": "gpu 1"}],
        "operations": [row | operation],
        "hosts": [{"steps": [{"name": str(number)} for number in range(10)]}],
    }


def told(document: Document) -> list[str]:
    return [piece["condition"] for piece in advise_on_trace(document)]


def test_a_trace_in_good_order() -> None:
    assert told(traced()) == []


@pytest.mark.parametrize("executed", ["float32", "tensorfloat32"])
def test_products_in_float32(executed: str) -> None:
    document = traced(executed_matrix_flops_by_type={executed: 1e14})
    (piece,) = advise_on_trace(document)
    assert ("default_matmul_precision" in str(piece)) == (executed == "float32")
    assert (piece["condition"], piece["function"]) == ("slow_element_type", "jit_train_step")
    # Half of the span, of that what the products take at least in TensorFloat-32, of that a half.
    assert piece["saves_ratio"] == pytest.approx(0.5 * (1e14 / 494.7e12) / 2)
    assert told(document | {"unmodelled_share": 0.95}) == []


def test_products_beside_others_are_held_against_their_part_of_the_device() -> None:
    document = traced(executed_matrix_flops_by_type={"float32": 1e14}, self_seconds=4.0)
    (piece,) = advise_on_trace(document)
    assert piece["saves_ratio"] == pytest.approx(0.5 * (1e14 / 494.7e12) / 2)


def test_exposed_communication_of_all_devices() -> None:
    document = traced()
    document["devices"][1]["exposed_communication_seconds"] = 0.4
    (piece,) = advise_on_trace(document)
    assert piece["sentence"].startswith("In the trace the devices wait for collectives 20 %")
    assert piece["saves_ratio"] == pytest.approx(0.2)
    assert "loop" not in piece


def test_many_small_operations_in_a_step() -> None:
    document = traced(label="latency", executions=100_000, seconds=0.8, share=0.8)
    (piece,) = advise_on_trace(document)
    assert piece["condition"] == "small_operations"
    assert "40 % in 5,000 a step that take 8 µs each" in piece["sentence"]
    assert "between" not in piece["sentence"]
    for device in document["devices"]:
        device["gap_seconds"] = 0.2
    (piece,) = advise_on_trace(document)
    assert "spends 60 % " in piece["sentence"]
    assert "20 % between operations, and 40 % in 5,000 a step that take 8 µs each" in piece["sentence"]
    document["hosts"] = []
    assert told(document) == []  # of no known number of steps


@pytest.mark.parametrize("key", ["devices", "operations", "hosts", "unmodelled_share"])
def test_what_a_trace_does_not_tell_is_no_reason_for_advice(key: str) -> None:
    document = traced()
    document[key] = None
    assert told(document) == []
