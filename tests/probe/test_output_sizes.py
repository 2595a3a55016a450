"""The bytes of each output of an executable, as its module tells them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.probe.out_of_memory.output_sizes import output_sizes


def proto_of(function: Any, *args: Any) -> bytes:
    compiled = jax.jit(function).lower(*args).compile()
    proto: bytes = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    return proto


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: x + 1, [4 * 300 * 5]),
        (
            lambda x: {"w": x * 2, "loss": x.sum(), "n": (x.sum() > 0, x.astype(jnp.bfloat16))},
            [4, 1, 2 * 1500, 6000],
        ),
        (lambda x: x[:0], [0]),
        (lambda x: jnp.zeros((70_000, 3), jnp.int8) + x[0, 0].astype(jnp.int8), [210_000]),
    ],
)
def test_each_output_has_its_size(function: Any, sizes: list[int]) -> None:
    assert list(output_sizes(proto_of(function, jnp.ones((300, 5))))) == sizes


@given(st.binary(max_size=200), st.integers(0, 1 << 30))
def test_bytes_that_are_no_module_have_no_sizes_and_raise_nothing(noise: bytes, at: int) -> None:
    output_sizes(noise)
    whole = PROTO or PROTO.extend(proto_of(lambda x: (x, x + 1), jnp.ones(3))) or PROTO
    cut = at % len(whole)
    output_sizes(bytes(whole[:cut] + noise + whole[cut:]))


PROTO = bytearray()


def test_without_a_module_there_are_none() -> None:
    assert output_sizes(None) == ()
