"""The run of a call that compiled is timed from the end of its compile."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.model.events import ExecutableRan, StepCompleted
from tests.waiting import wait_for


def test_a_call_that_is_the_whole_training_is_timed_without_its_compile(polled: Any) -> None:
    # Three times as long as a first run must be to be told, where a product takes 3 ms.
    train = polled.side.watching.watch(
        jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda _, y: jnp.tanh(y @ y) * 1e-3, x))
    )
    called = time.monotonic()
    result = train(jnp.ones((700, 700)))
    returned = time.monotonic()
    result.block_until_ready()
    whole, done = time.monotonic() - called, time.monotonic()
    while not (told := polled.of(ExecutableRan)):
        time.sleep(0.005)
        assert time.monotonic() < done + 60
    (ran,) = told
    assert ran.seconds < whole - 0.5 * (returned - called) + ran.uncertainty
    assert ran.seconds > 0.5 * (whole - (returned - called))


def test_a_short_first_run_is_not_told_as_it_is_cold(polled: Any) -> None:
    step = polled.side.watching.watch(
        jax.jit(lambda x: jax.lax.fori_loop(0, 6, lambda _, y: jnp.tanh(y @ y) * 1e-3, x))
    )
    # As in a job: of a run whose end is not known to 0.02 s, as on a busy machine, nothing would be told.
    polled.side.completions._interval = 0.5
    result = step(jnp.ones((700, 700))).block_until_ready()
    wait_for(lambda: polled.of(StepCompleted), "the completion of the step", 60)
    assert all(ran.seconds > 0.5 for ran in polled.of(ExecutableRan))  # a busy machine may take as long
    del result  # the output that is asked is too large to be kept


def test_an_output_that_is_deleted_or_ready_at_once_is_not_timed(polled: Any) -> None:
    train = polled.side.watching.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
    train(jnp.ones((1500, 1500))).delete()
    train(jnp.ones((2, 2))).block_until_ready()
    time.sleep(0.5)
    assert polled.of(ExecutableRan) == []
