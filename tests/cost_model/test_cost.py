"""Arithmetic of costs themselves."""

import json
import pickle

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
)


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
