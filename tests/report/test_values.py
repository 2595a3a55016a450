from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from jaxobs.report.values import flat_values, steps_of_main_loop

NUMBERS = st.none() | st.floats(allow_nan=True) | st.integers(0, 10**9)
LOOPS = st.dictionaries(
    st.sampled_from(["train", "eval", "fit"]),
    st.fixed_dictionaries(
        {
            "mfu": NUMBERS,
            "step_seconds": NUMBERS,
            "mfu_reason": st.none() | st.just("why"),
            "steps": st.integers(0, 9),
        }
    ),
)


@given(LOOPS)
def test_what_is_not_known_is_absent_and_all_else_is_a_finite_number(
    loops: dict[str, dict[str, object]],
) -> None:
    values = flat_values({"loops": loops})
    assert all(type(value) is float and math.isfinite(value) for value in values.values())
    if "train" in loops:
        known = loops["train"]["mfu"]
        finite = isinstance(known, int | float) and math.isfinite(known)
        assert ("jaxobs/mfu" in values) == finite


def test_the_keys_name_the_loop_unless_it_is_the_main_one() -> None:
    document = {
        "process": {"goodput": 0.9, "memory": {"in_use_bytes": 5}},
        "loops": {
            "eval": {"mfu": 0.1, "steps": 2},
            "train": {"mfu": 0.4, "steps": 7, "bottleneck": {"shares": {"compute": 0.6}, "confidence": 0.5}},
        },
        "devices": [{"memory": {"in_use_bytes": 1}}, {"memory": {"in_use_bytes": 3}}, {"memory": None}],
        "functions": {
            "f": {"compilations": 2, "recompilation_count": 1, "seconds": {"trace": 0.5, "backend": 1.0}}
        },
        "functions_left_out_seconds": 0.25,
    }
    assert flat_values(document) == {
        "jaxobs/mfu": 0.4,
        "jaxobs/bottleneck/compute": 0.6,
        "jaxobs/bottleneck_confidence": 0.5,
        "jaxobs/eval/mfu": 0.1,
        "jaxobs/goodput": 0.9,
        "jaxobs/process_memory_in_use_bytes": 5.0,
        "jaxobs/device_memory_in_use_bytes": 3.0,
        "jaxobs/compilations": 2.0,
        "jaxobs/recompilations": 1.0,
        "jaxobs/compile_seconds": 1.75,
    }
    assert steps_of_main_loop(document) == 7


def test_compilations_are_not_counted_where_functions_are_left_out() -> None:
    listed = {"f": {"compilations": 2, "recompilation_count": 1, "seconds": {"backend": 1.0}}}
    document = {"functions": listed, "functions_left_out": 5, "functions_left_out_seconds": 0.25}
    assert flat_values(document) == {"jaxobs/compile_seconds": 1.25}


def test_a_loop_of_another_name_is_the_main_one_where_it_is_the_longest() -> None:
    loops = {"fit": {"mfu": 0.2, "wall_seconds": 9.0}, "warm": {"mfu": 0.1, "wall_seconds": 1.0}}
    assert flat_values({"loops": loops}) == {"jaxobs/mfu": 0.2, "jaxobs/warm/mfu": 0.1}


def test_an_empty_snapshot_has_no_values() -> None:
    assert flat_values({"process": None, "loops": None}) == {}
    assert steps_of_main_loop({}) is None
