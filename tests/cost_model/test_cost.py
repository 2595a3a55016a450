"""Arithmetic of costs themselves."""

import json
import pickle
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.cost import Cost

_AMOUNTS = st.integers(0, 2**40).map(float)
_BY_TYPE = st.dictionaries(st.sampled_from(["float32", "bfloat16", "float8_e4m3fn"]), _AMOUNTS)
COSTS = st.builds(
    Cost,
    matrix_flops_by_type=_BY_TYPE,
    executed_matrix_flops_by_type=_BY_TYPE,
    vector_flops_by_type=_BY_TYPE,
    transcendentals=_AMOUNTS,
    rematerialized_flops_by_type=_BY_TYPE,
    bytes=_AMOUNTS,
    collective_bytes=st.dictionaries(st.sampled_from(["all-reduce", "all-gather"]), _AMOUNTS),
    exact=st.booleans(),
    inexact_reasons=st.sampled_from([(), ("loop",), ("loop", "branch")]),
    unmodelled=st.sampled_from([(), ("svd",)]),
).map(lambda cost: replace(cost, exact=cost.exact and not (cost.inexact_reasons or cost.unmodelled)))


@given(COSTS, COSTS)
def test_addition_adds_every_figure(left, right):
    total = left + right
    assert total.flops == left.flops + right.flops
    assert total.bytes == left.bytes + right.bytes
    assert total.rematerialized_flops == left.rematerialized_flops + right.rematerialized_flops
    assert total.exact == (left.exact and right.exact)
    assert set(total.unmodelled) == {*left.unmodelled, *right.unmodelled}


@given(COSTS)
def test_nothing_is_neutral_and_twice_is_a_sum(cost):
    assert cost + Cost() == cost
    assert cost.scaled(2) == cost + cost


def test_a_sum_is_inexact_where_a_part_has_a_reason_or_is_unmodelled():
    assert (Cost(bytes=8.0) + Cost(bytes=8.0)).exact
    assert not (Cost(bytes=8.0) + Cost(inexact_reasons=("loop",))).exact
    assert not (Cost(unmodelled=("svd",)) + Cost(bytes=8.0)).exact


@given(COSTS)
def test_a_cost_survives_pickling_and_json(cost):
    assert pickle.loads(pickle.dumps(cost)) == cost
    plain = json.loads(json.dumps(cost.to_dict()))
    assert plain["flops"] == cost.matrix_flops + cost.vector_flops
    assert plain["intensity"] == (None if cost.bytes == 0 else cost.flops / cost.bytes)


def test_intensity_is_unknown_without_bytes():
    assert Cost(matrix_flops_by_type={"float32": 8.0}).intensity is None
    assert Cost(matrix_flops_by_type={"float32": 8.0}, bytes=4.0).intensity == 2


def test_it_prints_as_one_line_with_what_is_not_known() -> None:
    work = Cost(
        {"bfloat16": 2e12}, {"bfloat16": 2e12}, {"float32": 3e6}, 5e3, {"bfloat16": 5e11}, 2**30,
        {"all-reduce": 2**20}, False, ("a loop runs an unknown number of times",), ("custom_call",),
    )  # fmt: skip
    assert str(work) == (
        "at least 2 TFLOP (2 T matrix bfloat16, 3 M vector float32, 500 G rematerialised bfloat16), 1 GiB, "
        "1.86 kFLOP/byte, 5 k transcendentals, 1 MiB sent by all-reduce; "
        "a loop runs an unknown number of times; the work of custom_call is not known"
    )
    assert str(Cost()) == "0 FLOP, 0 B"
