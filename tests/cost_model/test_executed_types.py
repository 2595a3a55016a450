"""In which types products run: read off the compiled module, whatever the program asked for."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import pytest
from jax import lax

from jaxobs.cost_model.module import module_cost

DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"""a = f8e4m3fn[8,8]{{1,0}} parameter(0)
            ROOT d = f32[8,8]{{1,0}} dot(a, a), {DOT}""",
            {"float8_e4m3fn"},
        ),
        (
            f"""a = f8e4m3fn[8,8]{{1,0}} parameter(0)
            w = bf16[8,8]{{1,0}} convert(a)
            ROOT d = f32[8,8]{{1,0}} dot(w, w), {DOT}""",
            {"bfloat16"},
        ),
        (
            """a = f8e5m2[8,8]{1,0} parameter(0)
            ROOT d = (bf16[8,8]{1,0}, s8[4194304]{0}) custom-call(a, a), custom_call_target="__cublas$lt$matmul$f8",
              backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,"dot_dimension_numbers":{
              "lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}""",
            {"float8_e5m2"},
        ),
        (
            """a = f32[8,8]{1,0} parameter(0)
            ROOT d = f32[8,8]{1,0} custom-call(a, a), custom_call_target="somebody_elses"
            """,
            set(),
        ),
    ],
)
def test_the_types_of_products_are_those_they_run_in(
    text_proto: Callable[[str], bytes], body: str, expected: set[str]
) -> None:
    assert _types(text_proto(f"ENTRY e {{ {body} }}")) == expected


def test_a_cpu_runs_8_bit_floats_as_float32(proto: Callable[..., bytes]) -> None:
    narrow = jnp.ones((64, 64), "float8_e4m3fn")
    assert _types(proto(lambda a: lax.dot(a, a, preferred_element_type=jnp.float32), narrow)) == {"float32"}


def _types(serialized: bytes) -> set[str]:
    return set(module_cost(serialized).cost.executed_matrix_flops_by_type)
