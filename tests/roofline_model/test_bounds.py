"""The roofline's arithmetic: what bounds an operation, what is absent and why, and the algebra of bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bounds import (
    Bound,
    bound_time,
    ceiling,
    efficiency,
    model_flops_utilization,
    total_bound,
)


def peak(value: float) -> Peak:
    return Peak(value, "user", "a test")


PEAKS = Peaks(
    device_kind="example",
    matrix={"float32": peak(1e12), "bfloat16": peak(4e12)},
    vector={"float32": peak(5e11)},
    transcendentals=peak(1e10),
    memory=peak(1e11),
    memory_by_working_set=((1e5, 1e12), (1e9, 1e11)),
    link=peak(2e10),
    memory_capacity=None,
    reason=None,
)
NOTHING = Peaks("unknown", {}, {}, None, None, (), None, None, "unknown device")
WRONG = [math.nan, math.inf, -math.inf, -1.0]

amounts = st.floats(min_value=1.0, max_value=1e18)
costs = st.builds(
    Cost,
    matrix_flops_by_type=st.dictionaries(st.sampled_from(["float32", "bfloat16"]), amounts),
    vector_flops_by_type=st.dictionaries(st.just("float32"), amounts),
    transcendentals=st.just(0.0) | amounts,
    bytes=st.just(0.0) | amounts,
)


def test_the_slowest_part_is_the_bound() -> None:
    bound = bound_time(Cost(matrix_flops_by_type={"float32": 1e12, "bfloat16": 4e12}, bytes=1e11), PEAKS)
    assert bound.matrix_seconds == 2.0
    assert bound.vector_seconds == 0.0
    assert bound.memory_seconds == 1.0
    assert (bound.seconds, bound.limit, bound.missing, bound.reason) == (2.0, "compute", (), None)
    assert bound_time(Cost(vector_flops_by_type={"float32": 5e11}, bytes=3e11), PEAKS).limit == "memory"


def test_work_is_charged_at_the_type_it_runs_in() -> None:
    cost = Cost(matrix_flops_by_type={"bfloat16": 4e12}, executed_matrix_flops_by_type={"float32": 4e12})
    assert bound_time(cost, PEAKS).seconds == 4.0


def test_the_memory_rate_follows_the_working_set() -> None:
    assert bound_time(Cost(bytes=1e12), PEAKS, working_set_bytes=1e4).seconds == pytest.approx(1.0)
    assert bound_time(Cost(bytes=1e12), PEAKS, working_set_bytes=1e7).seconds == pytest.approx(math.sqrt(10))
    assert bound_time(Cost(bytes=1e12), PEAKS).seconds == pytest.approx(10.0)


def test_a_type_without_a_peak_is_left_out_and_named() -> None:
    bound = bound_time(Cost(matrix_flops_by_type={"float32": 1e12, "float8_e4m3fn": 1e15}), PEAKS)
    assert bound.seconds == 1.0
    assert bound.missing == ("matrix float8_e4m3fn",)
    assert bound.reason == "no peak for matrix float8_e4m3fn"


def test_without_peaks_nothing_is_known_and_everything_is_named() -> None:
    cost = Cost({"float32": 1.0}, {}, {"float32": 1.0}, 1.0, {}, 1.0, {"all-reduce": 1.0})
    bound = bound_time(cost, NOTHING)
    assert bound.seconds is bound.limit is bound.matrix_seconds is bound.memory_seconds is None
    assert bound.communication_seconds is None
    assert bound.missing == (
        "matrix float32",
        "vector float32",
        "transcendentals",
        "memory",
        "link all-reduce",
    )


def test_collectives_are_bounded_by_the_link_beside_the_rest() -> None:
    bound = bound_time(Cost(bytes=1e11, collective_bytes={"all-reduce": 2e10, "all-gather": 2e10}), PEAKS)
    assert bound.communication_seconds == 2.0
    assert bound.seconds == 1.0


def test_no_work_has_no_bound_and_says_so() -> None:
    bound = bound_time(Cost(), PEAKS)
    assert bound.seconds is None
    assert bound.reason == "no work was counted"
    assert efficiency(bound, 1.0) == (None, "no work was counted", None)


@pytest.mark.parametrize("wrong", WRONG)
def test_an_amount_that_is_no_positive_number_is_left_out_and_named(wrong: float) -> None:
    bound = bound_time(
        Cost(matrix_flops_by_type={"float32": wrong}, transcendentals=wrong, bytes=wrong), PEAKS
    )
    assert bound.seconds is None
    assert len(bound.missing) == 3
    assert all("the amount is" in name for name in bound.missing)


@given(costs)
def test_the_bound_is_its_largest_part_and_never_above_their_sum(cost: Cost) -> None:
    bound = bound_time(cost, PEAKS)
    parts = [bound.matrix_seconds, bound.vector_seconds, bound.transcendental_seconds, bound.memory_seconds]
    known = [part for part in parts if part is not None]
    assert (bound.seconds or 0.0) == max(known)
    assert (bound.seconds or 0.0) <= sum(known)


@given(costs, costs)
def test_more_work_never_takes_less_time(cost: Cost, more: Cost) -> None:
    alone, together = bound_time(cost, PEAKS), bound_time(cost + more, PEAKS)
    assert (together.seconds or 0.0) >= (alone.seconds or 0.0)
    assert (together.seconds or 0.0) <= (
        (alone.seconds or 0.0) + (bound_time(more, PEAKS).seconds or 0.0)
    ) * (1 + 1e-9)


@given(costs, st.floats(min_value=1e-3, max_value=1e3))
def test_time_scales_with_work_and_against_peaks(cost: Cost, factor: float) -> None:
    base = bound_time(cost, PEAKS).seconds
    assume(base is not None)
    assert bound_time(cost.scaled(factor), PEAKS).seconds == pytest.approx(base * factor)  # type: ignore[operator]  # it is known
    faster = replace(
        PEAKS,
        matrix={dtype: peak(found.value * factor) for dtype, found in PEAKS.matrix.items()},
        vector={dtype: peak(found.value * factor) for dtype, found in PEAKS.vector.items()},
        transcendentals=peak(1e10 * factor),
        memory=peak(1e11 * factor),
        memory_by_working_set=(),
    )
    assert bound_time(cost, faster).seconds == pytest.approx(base / factor)  # type: ignore[operator]  # it is known


@given(st.lists(costs, max_size=5))
def test_an_executables_bound_is_the_sum_of_its_operations_and_not_below_that_of_their_sum(
    every: list[Cost],
) -> None:
    bounds = [bound_time(cost, PEAKS) for cost in every]
    total = total_bound(bounds)
    assert (total.seconds or 0.0) == pytest.approx(sum(bound.seconds or 0.0 for bound in bounds))
    whole = bound_time(sum(every, Cost()), PEAKS)
    assert (total.seconds or 0.0) >= (whole.seconds or 0.0) * (1 - 1e-9)
    assert (total.limit is None) == (total.seconds is None)


def test_an_executable_is_limited_by_what_limits_most_of_its_time() -> None:
    compute, memory = bound_time(Cost({"float32": 3e12}), PEAKS), bound_time(Cost(bytes=2e11), PEAKS)
    assert total_bound([compute, memory]).limit == "compute"
    assert total_bound([compute, memory, memory]).limit == "memory"
    unknown = bound_time(Cost({"int8": 1e12}), PEAKS)
    assert total_bound([compute, unknown, unknown]).missing == ("matrix int8",)
    assert total_bound([]).seconds is None


def test_efficiency_above_one_is_shown_and_named() -> None:
    memory = bound_time(Cost(bytes=1e11), PEAKS)
    assert efficiency(memory, 2.0) == (0.5, None, "memory")
    value, reason, limit = efficiency(memory, 0.5)
    assert (value, limit) == (2.0, "cache_resident")
    assert reason is not None
    assert efficiency(bound_time(Cost({"float32": 1e12}), PEAKS), 0.5)[2] == "compute"
    used = model_flops_utilization(Cost({"float32": 1e12}), 0.5, PEAKS)
    assert used.mfu == 2.0
    assert str(used.reason).endswith("(measured while other work ran?), or the time too short")


@pytest.mark.parametrize("wrong", [None, 0.0, *WRONG])
def test_a_time_that_is_no_positive_number_gives_no_ratio_but_a_reason(wrong: float | None) -> None:
    found = efficiency(bound_time(Cost(bytes=1e11), PEAKS), wrong)
    assert found.value is None
    assert found.reason is not None
    used = model_flops_utilization(Cost({"float32": 1e12}), wrong, PEAKS)
    assert used.mfu is used.hfu is None
    assert used.reason is not None


def test_a_ratio_out_of_floating_range_is_absent() -> None:
    bound = Bound(0.0, 0.0, 0.0, 1e300, 1e300, "memory")
    assert efficiency(bound, 1e-300).value is None
    assert model_flops_utilization(Cost({"float32": 1e300}), 1e-300, PEAKS).reason is not None


def test_mfu_leaves_out_rematerialised_work_and_hfu_does_not() -> None:
    cost = Cost({"float32": 1e12, "bfloat16": 4e12}, rematerialized_flops_by_type={"bfloat16": 2e12})
    assert model_flops_utilization(cost, 4.0, PEAKS) == (0.375, 0.5, None)


def test_mfu_from_the_users_own_flops() -> None:
    used = model_flops_utilization(Cost({"float32": 2e12}), 4.0, PEAKS, model_flops=1e12)
    assert (used.mfu, used.hfu) == (0.25, 0.5)
    wrong = model_flops_utilization(Cost({"float32": 2e12}), 4.0, PEAKS, model_flops=-1.0)
    assert (wrong.mfu, wrong.hfu) == (None, 0.5)
    assert wrong.reason is not None


def test_mfu_is_absent_with_its_reason_where_a_type_has_no_peak_or_nothing_was_counted() -> None:
    used = model_flops_utilization(Cost({"float32": 1e12, "int8": 1.0}), 1.0, PEAKS)
    assert used == (None, None, "no peak for matrix int8")
    assert model_flops_utilization(Cost(), 1.0, PEAKS).reason == "no matrix work was counted"


def test_the_roof_rises_with_the_memory_and_ends_at_the_peak() -> None:
    roof = ceiling(PEAKS, "float32")
    assert len(roof) == 40
    assert roof[0] == pytest.approx((2**-7, 2**-7 * 1e11))
    assert roof[-1] == pytest.approx((2**14, 1e12))
    ratios = [after[0] / before[0] for before, after in pairwise(roof)]
    assert ratios == pytest.approx([ratios[0]] * 39)
    assert [rate for _, rate in roof] == sorted(rate for _, rate in roof)


def test_there_is_no_roof_without_both_peaks() -> None:
    assert ceiling(PEAKS, "float64") == ()
    assert ceiling(NOTHING, "float32") == ()
