"""Operations side by side (streams of a GPU, worker threads of a CPU): all figures of a row are of the same seconds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.profiler_windows.operations import Operations
from jaxobs.model.cost import Cost, ModuleCost, OperationCost
from jaxobs.model.figure import plain
from jaxobs.model.trace import DeviceTrace, HostTrace, Kind, ModuleTime, OperationTime, Trace
from jaxobs.roofline_model.bounds import CACHE, PEAK, model_flops_utilization
from jaxobs.roofline_model.operation_work import BESIDE_OTHERS, HIDDEN_BEHIND_OTHERS
from jaxobs.roofline_model.traced import Profiled, join
from jaxobs.trace.attribution import attribute
from tests.derive.made_up import PEAKS

KINDS: tuple[Kind, ...] = ("compute", "collective")

MILLISECOND = 10**9
"""In picoseconds, the unit of a trace."""

Ran = tuple[int, int, Cost, Kind]
"""Begin and end in milliseconds, the work, and what kind of operation did it."""


def product(milliseconds: float) -> Cost:
    """A product that takes so long at the peak of 1 TFLOP/s."""
    return Cost(matrix_flops_by_type={"float32": milliseconds * 1e9})


def moving(milliseconds: float) -> Cost:
    """Bytes that take so long at 100 GB/s."""
    return Cost(bytes=milliseconds * 1e8)


def joined(*every: Ran) -> Profiled:
    """Operations `op0`, `op1`, … of one run of one module on one device, joined with their costs."""
    kinds = [kind for *_, kind in every]
    found = attribute(
        [(begin * MILLISECOND, end * MILLISECOND, index) for index, (begin, end, _, _) in enumerate(every)],
        kinds,
    )
    times = tuple(
        OperationTime(
            f"op{index}", f"op{index}", "jit_f", 1, "fusion", kind, 1, 1,
            (end - begin) / 1e3, found.charged[index] / 1e12, (end - begin) / 1e3,
        )
        for index, (begin, end, _, kind) in enumerate(every)
    )  # fmt: skip
    busy, span = found.busy / 1e12, (found.end - found.start) / 1e12
    device = DeviceTrace(
        "gpu", "host", "gpu", "example", {}, span, busy, span - busy, 0.0, busy, 0.0, 0.0, 0.0, 0.0, times,
        (ModuleTime("jit_f", 1, 1, "run ids", busy),),
    )  # fmt: skip
    parts = tuple(
        OperationCost(f"op{index}", f"op{index}", "", f"layer{index % 2}", "model.py:1", 1, cost)
        for index, (_, _, cost, _) in enumerate(every)
    )
    whole = sum((part.cost for part in parts), Cost())
    module = ModuleCost("abc", whole, parts)
    trace = Trace((HostTrace("host", (device,), {1: b"module"}, {}),))
    return join(trace, lambda *_: module, {("host", "gpu"): PEAKS})


def rows(found: Profiled) -> list[dict[str, Any]]:
    """By operation, in their order."""
    return [
        operation.work.figures(found.busy_seconds)
        for _, operation in sorted(found.operations.items(), key=lambda pair: pair[0][2])
    ]


def module_row(found: Profiled) -> dict[str, Any]:
    (module,) = found.modules.values()
    return module.work.figures(found.busy_seconds)


def test_two_products_side_by_side_have_half_of_the_time_each() -> None:
    found = joined((0, 10, product(4), "compute"), (0, 10, product(2), "compute"))
    first, second = rows(found)
    assert first["seconds"] == second["seconds"] == pytest.approx(0.005)
    assert first["self_seconds"] == pytest.approx(0.010)
    assert first["achieved_flops_per_second"] == pytest.approx(4e9 / 0.005)
    assert first["efficiency"] == pytest.approx(0.8)
    assert second["efficiency"] == pytest.approx(0.4)
    assert module_row(found)["efficiency"] == pytest.approx(0.6)


def assert_shown(row: dict[str, Any], efficiency: float) -> None:
    """This is the row's efficiency, or it is withheld because it contradicts the peak."""
    if row["efficiency"] is None:
        assert efficiency > PEAK
    else:
        assert row["efficiency"] == pytest.approx(efficiency)
        assert efficiency <= (CACHE if row["bound"] == "cache_resident" else PEAK)


ran = st.tuples(
    st.integers(0, 40),
    st.integers(1, 20),
    st.one_of(st.floats(0.01, 20).map(product), st.floats(0.01, 20).map(moving)),
    st.sampled_from(KINDS),
).map(lambda drawn: (drawn[0], drawn[0] + drawn[1], drawn[2], drawn[3]))


@given(st.lists(ran, min_size=1, max_size=9))
def test_every_row_agrees_with_itself_and_with_the_device(every: list[Ran]) -> None:
    found = joined(*every)
    busy = found.busy_seconds
    operations, module = rows(found), module_row(found)
    for row, (_, _, cost, _) in zip(operations, every, strict=True):
        if row["seconds"]:
            assert row["share"] * busy == pytest.approx(row["seconds"])
            value = row["bound_seconds"] / row["seconds"]
            assert_shown(row, value)
            assert (row["achieved_flops_per_second"] or 0) * row["seconds"] == pytest.approx(cost.flops)
            assert (value > 1) is (row["efficiency_reason"] is not None)
        else:
            assert (row["efficiency"], row["achieved_flops_per_second"]) == (None, None)
            assert row["efficiency_reason"] == HIDDEN_BEHIND_OTHERS
    assert sum(row["seconds"] for row in operations) == pytest.approx(busy)
    together = sum(row["bound_seconds"] for row in operations) / busy
    assert_shown(module, together)
    (device,) = found.devices
    assert_shown(device.work.figures(busy), together)
    utilization = model_flops_utilization(device.work.cost, device.trace.span_seconds, PEAKS)
    assert (utilization.mfu or 0) <= together * (1 + 1e-9)
    assert module["bound"] != "cache_resident" or together > 1


def test_data_that_stayed_in_cache_is_named_where_nothing_else_explains_it() -> None:
    alone, beside, sure, fast = rows(
        joined(
            (0, 10, moving(12), "compute"),
            (20, 30, moving(7), "compute"),
            (20, 30, moving(30), "compute"),
            (40, 50, product(11), "compute"),
        )
    )
    assert (alone["bound"], alone["efficiency"]) == ("cache_resident", pytest.approx(1.2))
    assert (beside["bound"], beside["efficiency"]) == ("memory", pytest.approx(1.4))
    assert beside["efficiency_reason"] == BESIDE_OTHERS
    assert (sure["bound"], sure["efficiency"]) == ("cache_resident", pytest.approx(6.0))
    assert "peak is too low" in fast["efficiency_reason"]


def test_a_device_as_a_whole_ran_beside_nothing() -> None:
    one: Ran = (0, 10, moving(4), "compute")
    every = joined(one, one, one, one)
    assert (module_row(every)["bound"], module_row(every)["efficiency"]) == (
        "cache_resident",
        pytest.approx(1.6),
    )


def test_operations_of_a_running_job_have_the_same_figures_as_those_of_a_trace() -> None:
    found = joined(
        (0, 10, product(4), "compute"), (0, 10, moving(7), "compute"), (0, 5, moving(1), "collective")
    )
    live = Operations(200)
    live.add(found, {"abc": "train_step"}, 1.0)
    shown = {row["operation"]: row for row in plain(live.operations.value)}
    for name, offline in zip(("op0", "op1", "op2"), rows(found), strict=True):
        row = shown[name]
        for figure in (
            "seconds",
            "self_seconds",
            "share",
            "achieved_flops_per_second",
            "efficiency",
            "bound",
        ):
            assert row[figure] == offline[figure], (name, figure)
        if row["efficiency"] is None or row["efficiency"] > 1:
            assert row["efficiency_reason"]
    assert (shown["op1"]["efficiency"], shown["op1"]["efficiency_reason"]) == (
        pytest.approx(1.4),
        BESIDE_OTHERS,
    )
    assert shown["op2"]["efficiency_reason"] == HIDDEN_BEHIND_OTHERS
