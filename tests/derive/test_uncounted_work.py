"""MFU says that it is a lower bound where the device works on what is not counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jaxobs.model.cost import ModuleCost
from jaxobs.model.events import Compilation, ExecutableRan, FunctionWatched, LoopDeclared
from jaxobs.report.view import View, answer
from tests.derive.made_up import PEAKS, applied, at, backend, created, module, new_fold, step, waits
from tests.derive.traced import (
    COMPUTE,
    cost_of,
    device,
    fold_with_steps,
    loop_of,
    operation,
    read,
    trace_of,
    window,
)


def loop_whose_device_also_runs(other: float, kind: str = "compute") -> dict[str, Any]:
    """A step's watched function takes 40 ms of its 100; what no function of jax.jit made, `other` seconds of a window."""
    fold = fold_with_steps(waits(), runs=(1,))
    known = replace(module(matrix=1e10), fingerprint="abc")
    fold.apply(FunctionWatched(-1, "f", "", at(0)))
    fold.analysed(1, known)
    for number in range(10):
        fold.apply(ExecutableRan(1, 0.04, 0.001, at(1.5 + number / 10)))
    fold.apply(window(2.0, 3.0))
    (told,) = fold.profiles.to_read(at(5))
    outside = replace(operation("product", other, runs=10, kind=kind), program_id=2, module="jit_dot")
    rows = [operation("dot", 0.4, runs=10), outside]

    def modules(_: str, program: int | None) -> ModuleCost | str:
        return cost_of(("dot", COMPUTE, 1)) if program == 1 else "its module is not in the trace"

    read(fold, told, trace_of(device(rows), calls={"f": 10}), modules)
    return loop_of(fold)


def test_mfu_is_a_lower_bound_where_the_device_works_on_programs_outside_jit() -> None:
    loop = loop_whose_device_also_runs(0.4)
    assert loop["mfu"] == pytest.approx(0.1)
    assert loop["mfu_reason"].startswith("a lower bound: for 50 % of the time that the device works")
    assert loop["hfu_reason"] == loop["mfu_reason"]


@pytest.mark.parametrize(("other", "kind"), [(0.01, "compute"), (0.4, "transfer"), (0.4, "collective")])
def test_mfu_is_no_lower_bound_for_a_little_of_them_or_for_copies(other: float, kind: str) -> None:
    loop = loop_whose_device_also_runs(other, kind)
    assert loop["mfu"] == pytest.approx(0.1)
    assert "lower bound" not in (loop.get("mfu_reason") or "")


def test_an_mfu_of_flops_that_were_given_is_no_lower_bound() -> None:
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0)), waits()])
    fold.bind_peaks("example", PEAKS)
    fold.apply(LoopDeclared("train", 4e10, at(0)))
    fold.analysed(1, module(matrix=1e10, inexact_reasons=("a loop of unknown length",)))
    fold.apply(Compilation("g", 2, 1, at(0.05), (), "off", None, (), None))
    applied(fold, [step(i, i * 0.1, (i + 1) * 0.1, runs=(1,)) for i in range(21)])
    document = fold.snapshot(at(2.1)).to_dict()
    loop = document["loops"]["train"]
    assert (loop["mfu"], loop["mfu_reason"]) == (pytest.approx(0.2), None)
    assert loop["hfu_reason"].startswith("a lower bound: g runs in the loop too")
    assert ", MFU 20 %." in answer(View(document))


@pytest.mark.parametrize("function", ["f", "g"])
def test_mfu_is_a_lower_bound_where_a_function_of_the_loop_is_not_watched(function: str) -> None:
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0)), waits()])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e10))
    fold.apply(Compilation(function, 2, 1, at(0.05), (), "off", None, (), None))
    applied(fold, [step(i, i * 0.1, (i + 1) * 0.1, runs=(1,)) for i in range(21)])
    loop = fold.snapshot(at(2.1)).to_dict()["loops"]["train"]
    assert loop["mfu"] == pytest.approx(0.05)  # one of two devices works
    assert ("a lower bound: g runs in the loop too" in (loop["mfu_reason"] or "")) == (function == "g")
