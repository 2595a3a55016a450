"""The run of a call that compiled is timed from the end of its compile."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.model.events import ExecutableRan


def test_a_call_that_is_the_whole_training_is_timed_without_its_compile(observed: Any) -> None:
    train = observed.side.watching.watch(
        jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, y: jnp.tanh(y @ y) * 1e-3, x))
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


def test_an_output_that_is_deleted_or_ready_at_once_is_not_asked_about(observed: Any) -> None:
    train = observed.side.watching.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
    train(jnp.ones((1500, 1500))).delete()
    train(jnp.ones((2, 2))).block_until_ready()
    time.sleep(0.5)
    observed.side.first_calls.ask()
    assert observed.of(ExecutableRan) == []
