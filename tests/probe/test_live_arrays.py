"""The census of live arrays: exact sums, the right lines, and nothing held on to."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.jax_compat.arrays import (
    Census,
    Group,
    arrays_alive,
    list_arrays,
    local_bytes,
    memory_ran_out,
)
from jaxobs.jax_compat.objects import layout_text

SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxobs.jax_compat.arrays import Census, list_arrays

class Axis:  # an axis may be named by anything hashable
    def __repr__(self): raise ValueError("repr")
    __str__ = __repr__

axis = Axis()
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
own = Mesh(np.array(jax.devices()), (axis,))
kept = [
    jax.device_put(jnp.ones((8, 6)), NamedSharding(mesh, P("data", None))),
    jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P(("data", "model"),))),
    jax.device_put(jnp.ones((4, 4)), NamedSharding(mesh, P())),
    jax.device_put(jnp.ones((16,)), NamedSharding(own, P(axis))),
]
census = Census(list_arrays())
for group in census.groups(20):
    print(group.shape, group.sharding, group.count, group.bytes, sep="|")
"""


def census() -> Census:
    return Census(list_arrays())


def groups_of(shape: str) -> list[Group]:
    return [group for group in census().groups(1_000) if group.shape == shape]


def first_line() -> Any:
    return jnp.zeros((123, 7), jnp.bfloat16)


def other_line() -> Any:
    return jnp.zeros((123, 7), jnp.bfloat16)


def test_arrays_are_counted_by_shape_type_and_sharding() -> None:
    kept = [first_line() for _ in range(3)] + [jnp.zeros((123, 7), jnp.float32)]
    assert sorted(
        (group.dtype, group.sharding, group.count, group.bytes) for group in groups_of("(123, 7)")
    ) == [
        ("bfloat16", "one device", 3, 3 * 123 * 7 * 2),
        ("float32", "one device", 1, 123 * 7 * 4),
    ]
    del kept
    assert groups_of("(123, 7)") == []


def test_the_line_that_made_them_is_the_caller_s_and_not_jax_s() -> None:
    kept = [first_line(), first_line(), other_line()]
    lines = {line.line: line.count for line in census().lines(1_000)}
    number = first_line.__code__.co_firstlineno + 1
    assert lines[f"probe/test_live_arrays.py:{number} in first_line"] == 2
    assert lines[f"probe/test_live_arrays.py:{number + 4} in other_line"] == 1
    (group,) = groups_of("(123, 7)")
    assert group.line.endswith("in first_line")
    assert len(kept) == 3


def test_sums_are_those_of_all_groups_and_of_all_lines() -> None:
    kept = [jnp.zeros((number, 3)) for number in range(1, 40)]
    made = census()
    groups, lines = made.groups(10_000), made.lines(10_000)
    assert sum(group.count for group in groups) == sum(line.count for line in lines) == made.count
    assert sum(group.bytes for group in groups) == sum(line.bytes for line in lines) == made.bytes
    assert [group.bytes for group in groups] == sorted((group.bytes for group in groups), reverse=True)
    assert len(kept) == 39


def test_a_census_under_way_keeps_no_array_alive() -> None:
    arrays = [jnp.zeros((5, 5, 5))]
    gone = weakref.ref(arrays[0])
    alive = []

    def between() -> None:
        arrays.clear()
        alive.append(gone() is not None)

    gc.disable()  # nothing but the last reference may be needed
    try:
        made = Census(list_arrays(), between)
    finally:
        gc.enable()
    assert alive
    assert not any(alive)
    assert [group.count for group in made.groups(1_000) if group.shape == "(5, 5, 5)"] == [1]


def test_donated_arrays_do_not_count() -> None:
    array = jnp.zeros((31, 17))
    jax.jit(lambda x: x + 1, donate_argnums=0)(array).block_until_ready()
    assert groups_of("(31, 17)") == []


@pytest.mark.parametrize(("dtype", "size"), [(jnp.int4, 4), (jnp.int8, 7), (jnp.complex64, 56), (bool, 7)])
def test_bytes_of_small_and_large_types(dtype: Any, size: int) -> None:
    array = jnp.zeros(7, dtype)
    assert local_bytes(array.shape, array.dtype, array.sharding) == size


@pytest.fixture(scope="module")
def sharded() -> dict[str, list[str]]:
    """Groups by shape in a process with four CPU devices."""
    done = subprocess.run(
        [sys.executable, "-c", SHARDED],
        env=_four_devices(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [row.split("|") for row in done.stdout.splitlines()]
    return {shape: rest for shape, *rest in rows}


def _four_devices() -> dict[str, str]:
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}


@pytest.mark.parametrize(
    ("shape", "sharding", "size"),
    [
        ("(8, 6)", "P('data', None) over 4", 2 * 8 * 6 * 4),  # half of it on each of four devices
        ("(8, 4)", "P(('data', 'model')) over 4", 8 * 4 * 4),
        ("(4, 4)", "replicated over 4", 4 * 4 * 4 * 4),
        ("(16,)", "P(Axis) over 4", 16 * 4),  # a name that is no text is not asked for one
    ],
)
def test_sharded_arrays(sharded: dict[str, list[str]], shape: str, sharding: str, size: int) -> None:
    assert sharded[shape] == [sharding, "1", str(size)]


def test_the_number_of_arrays_is_known_without_listing_them() -> None:
    gc.collect()  # what other tests have left must not go meanwhile
    before, listed = arrays_alive(), census().count
    assert before is not None
    assert listed <= before
    kept = [jnp.float32(number) for number in range(500)]
    after = arrays_alive()
    assert after is not None
    assert 500 <= after - before < 520
    assert len(kept) == 500


class UnderWay:
    """As an array that a device is still making: waiting for it would hold up the job."""

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return False

    def block_until_ready(self) -> None:
        raise AssertionError("waited")


class Failed(UnderWay):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def is_ready(self) -> bool:
        return True

    def block_until_ready(self) -> None:
        raise self.error


def test_an_array_without_memory_is_known_without_waiting_for_any() -> None:
    assert not memory_ran_out(UnderWay())
    assert memory_ran_out(Failed(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 7 bytes.")))
    assert not memory_ran_out(Failed(RuntimeError("INTERNAL: a kernel failed")))
    assert not memory_ran_out(Failed(RuntimeError()))
    array = jnp.ones(3)
    assert not memory_ran_out(array)
    array.delete()
    assert not memory_ran_out(array)


def test_a_single_device_is_told_in_words() -> None:
    assert layout_text(jax.device_put(np.ones(3)).sharding) == "one device"
