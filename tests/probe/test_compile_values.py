"""What a value of the user's looks like: told where its type is one of Python's, JAX's or NumPy's own, else its type."""

from __future__ import annotations

import enum
import functools
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from jaxobs.jax_compat.jit import trace_context
from jaxobs.jax_compat.objects import TEXT_LENGTH, sharding_text
from jaxobs_plugins.probes.compile.miss_cause import Value
from jaxobs_plugins.probes.compile.signature import container
from jaxobs_plugins.probes.compile.values import function_key, function_text, value_of

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Mode(enum.Enum):
    TRAIN = "train"


class Number(int):
    def __repr__(self) -> str:
        raise AssertionError("printed")

    def __bool__(self) -> bool:
        raise AssertionError("asked")


class Wrapper:
    """As flax's `nnx.jit` makes: an object around a function, that says so."""

    def __init__(self, inner: Any) -> None:
        functools.update_wrapper(self, inner)

    def __call__(self, *args: Any) -> Any:
        return self.__wrapped__(*args)  # type: ignore[attr-defined]  # of update_wrapper


def first(x: Any) -> Any:
    return x


def second(x: Any) -> Any:
    return x


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (3, "3"),
        (None, "None"),
        ((1, "a", None), "(1, 'a', None)"),
        ((1,), "(1,)"),
        ([1, {"a": 2}], "[1, {'a': 2}]"),
        (tuple(range(20)), "(0, 1, 2, 3, 4, 5, 6, 7, …)"),
        (10**200, "int"),
        (np.int64(3), "int64(3)"),
        (np.dtype("float32"), "float32"),
        (np.float32, "class float32"),
        (first, "function first"),
        (Mode.TRAIN, "Mode"),
        (Number(3), "Number"),
        (np.ones(3), "ndarray"),
        (object(), "object"),
    ],
    ids=lambda part: part if type(part) is str else type(part).__name__,
)
def test_a_values_text(thing: Any, text: str) -> None:
    assert value_of(thing).text == text


@given(plain, plain)
def test_equal_texts_without_an_identity_mean_equal_values(one: Any, other: Any) -> None:
    here, there = value_of(one), value_of(other)
    assert len(here.text) <= 2 * TEXT_LENGTH
    assert value_of(one) == here
    if here == there and not here.identity:
        assert repr(one) == repr(other)


def test_objects_are_told_apart_by_being_others() -> None:
    one, other = object(), object()
    assert value_of(one) == value_of(one) == Value("object", id(one))
    assert value_of(one) != value_of(other)
    assert value_of((1, one)) != value_of((1, other))
    assert value_of("a" * 500 + "b") != value_of("a" * 500 + "c")


def test_a_structure_too_large_to_name_its_keys_has_one_name_in_all_processes() -> None:
    keys = [f"layer_{number}" for number in range(40)]
    value, paths = container(dict, keys, 40)
    assert (value, paths[1]) == (Value("dict of 40 #cacb24"), "['layer_1']")
    assert container(dict, [*keys[:-1], "head"], 40)[0] != value


def test_shardings() -> None:
    device = jax.devices()[0]
    mesh = Mesh(np.array([device]).reshape(1, 1), ("data", "model"))
    over = "over (data=1, model=1) on cpu:0"
    assert sharding_text(SingleDeviceSharding(device)) == "cpu:0"
    assert sharding_text(NamedSharding(mesh, PartitionSpec(("data", "model"), None))) == (
        f"P(('data', 'model'), None) {over}"
    )
    assert sharding_text(NamedSharding(mesh, PartitionSpec())) == f"P() {over}"
    assert sharding_text(None) == "uncommitted"
    assert value_of(mesh).text == "(data=1, model=1) on cpu:0"
    assert value_of(device).text == "cpu:0"


def test_wrapped_functions_are_who_they_wrap() -> None:
    assert function_key(Wrapper(first)) == function_key(Wrapper(first))
    assert function_key(Wrapper(first)) != function_key(Wrapper(second))
    assert function_key(jax.jit(first)) != function_key(jax.jit(second))
    transformed = [first, jax.grad(first), jax.vmap(first), jax.checkpoint(first), jax.grad(jax.grad(first))]
    assert len(set(map(function_key, transformed))) == len(transformed)
    assert function_key(jax.grad(first)) == function_key(jax.grad(first))
    assert function_key(jax.tree_util.Partial(first)) != function_key(jax.tree_util.Partial(second))
    assert function_key(functools.partial(first, 1)) == function_key(functools.partial(first, 2))
    assert function_key(functools.partial(first, 1)) != function_key(first)
    for wrapped in (Wrapper(first), jax.tree_util.Partial(first, 1)):
        assert function_text(wrapped).startswith("first at test_compile_values.py:")
    assert function_text(Wrapper) == "type"
    ring = Wrapper(first)
    vars(ring)["__wrapped__"] = ring
    assert function_key(ring)


def test_metadata_for_xla_is_a_context_that_a_trace_depends_on() -> None:
    outside = dict(trace_context())
    with set_xla_metadata(kept="together"):
        assert dict(trace_context())["xla_metadata"] != outside["xla_metadata"]
    assert dict(trace_context()) == outside
