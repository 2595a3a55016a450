"""The run of a call that compiled is timed from the end of its compile."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.model.events import ExecutableRan


def test_a_call_that_is_the_whole_training_is_timed_without_its_compile(observed: Any) -> None:
    train = observed.side.watching.watch(
        jax.jit(lambda x: jax.lax.fori_loop(0, 400, lambda _, y: jnp.tanh(y @ y) * 1e-3, x))
    )
    called = time.monotonic()
    result = train(jnp.ones((700, 700)))
    returned = time.monotonic()
    while not (told := observed.of(ExecutableRan)):
        observed.side.first_calls.ask()
        time.sleep(0.005)
        assert time.monotonic() < called + 60
    result.block_until_ready()
    whole = time.monotonic() - called
    (ran,) = told
    assert ran.seconds < whole - 0.5 * (returned - called) + ran.uncertainty
    assert ran.seconds > 0.5 * (whole - (returned - called))


def test_a_short_first_run_is_not_told_as_it_is_cold(observed: Any) -> None:
    step = observed.side.watching.watch(
        jax.jit(lambda x: jax.lax.fori_loop(0, 6, lambda _, y: jnp.tanh(y @ y) * 1e-3, x))
    )
    deadline = time.monotonic() + 30
    result = step(jnp.ones((700, 700)))
    assert not result.is_ready()
    while observed.side.first_calls.ask() is not None:
        time.sleep(0.001)
        assert time.monotonic() < deadline
    assert observed.of(ExecutableRan) == []


def test_an_output_that_is_deleted_or_ready_at_once_is_not_asked_about(observed: Any) -> None:
    train = observed.side.watching.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
    train(jnp.ones((1500, 1500))).delete()
    train(jnp.ones((2, 2))).block_until_ready()
    time.sleep(0.5)
    observed.side.first_calls.ask()
    assert observed.of(ExecutableRan) == []
