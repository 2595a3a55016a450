"""Loops and conditionals of `jax.lax` outside jit: programs of the user's, each named after the function and its line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.model.events import MISS_ARGUMENT, Compilation, ExecutableCreated

FILE = Path(__file__).name
W: Any = np.full((5, 5), 0.1, np.float32)

CALLS = {
    "scan": lambda: jax.lax.scan(lambda c, _: (jnp.tanh(c @ W), None), W, None, length=3),
    "while_loop": lambda: jax.lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, W),
    "fori_loop": lambda: jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ W), W),
    "map": lambda: jax.lax.map(jnp.tanh, W),
    "cond": lambda: jax.lax.cond(np.array(True), jnp.tanh, jnp.sin, W),
    "switch": lambda: jax.lax.switch(np.array(1), [jnp.tanh, jnp.sin, jnp.cos], W),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_is_a_function_of_its_own_named_with_its_line(observed: Any, name: str) -> None:
    call = CALLS[name]
    jax.clear_caches()  # what another test has compiled is not compiled again
    call()
    wanted = f"{name} at {FILE}:{inspect.getsourcelines(call)[1]}"
    (compiled,) = [event for event in observed.of(Compilation) if event.function == wanted]
    assert compiled.recompilation is None
    assert {"trace", "lower", "backend"} <= {phase for phase, _, _ in compiled.phases}
    (created,) = [
        event for event in observed.of(ExecutableCreated) if event.executable == compiled.executable
    ]
    assert created.function == wanted
    assert created.proto


def test_the_same_line_with_another_shape_is_a_recompile_and_another_line_is_none(observed: Any) -> None:
    def body(c: Any, _: None) -> Any:
        return c * 2, None

    jax.clear_caches()
    for size in (3, 4):
        jax.lax.scan(body, np.ones(size, np.float32), None, length=2)
    jax.lax.scan(body, np.ones(5, np.float32), None, length=2)
    scans = [event for event in observed.of(Compilation) if event.function.startswith("scan at ")]
    assert [event.recompilation for event in scans] == [None, "shape", None]
    assert len({event.function for event in scans}) == 2


def test_another_length_and_a_new_function_are_the_reasons_they_are(observed: Any) -> None:
    def body(c: Any, _: None) -> Any:
        return c * 2, None

    jax.clear_caches()
    x = np.ones(3, np.float32)
    for length, function in ((2, body), (3, body), (3, lambda c, _: (c * 3, None))):
        jax.lax.scan(function, x, None, length=length)
    scans = [event for event in observed.of(Compilation) if event.function.startswith("scan at ")]
    assert [event.recompilation for event in scans] == [None, "static_argument", "redefined"]
    assert dict(scans[1].attributes)[MISS_ARGUMENT] == "length"


def test_a_loop_differentiated_outside_jit_has_the_users_lines_both_ways(observed: Any) -> None:
    def loss(w: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), W, None, length=3)[0].sum()

    jax.clear_caches()
    jax.grad(loss)(W)
    names = {event.function for event in observed.of(Compilation)} - {"(eager)"}
    assert names
    assert all(name.startswith(f"scan at {FILE}:") for name in names)


def test_inside_jit_it_is_part_of_the_function_and_a_users_own_scan_keeps_its_name(observed: Any) -> None:
    @jax.jit
    def scan(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (c + 1, None), x, None, length=2)[0]

    scan(np.ones(3, np.float32))
    assert {event.function for event in observed.of(Compilation)} == {"scan"}
