"""Outputs that the next call takes, or that are too large to be kept: what can be asked is asked, and else it is told."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.clock import now
from jaxobs.model.events import ExecutableRan, StepCompleted
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.watch.signatures import LOST_IN_A_ROW, SMALL, OutputLeaf

TRIES = 4
"""The machine may be busy with something else: one good try of these shows that the method is right."""


def donating(size: int, leaves: int = 1) -> tuple[Any, dict[str, Any]]:
    """A step that gives back as many arrays as it is given, all of them donated to the next; 8 bytes each but one."""

    def renewed(state: dict[str, Any]) -> dict[str, Any]:
        w = jax.lax.fori_loop(0, 50, lambda _, a: jnp.tanh(a @ a / 99), state["w"])
        return {name: value + 1 for name, value in state.items()} | {"w": w}

    state = {"w": jnp.ones((size, size))} | {f"b{number}": jnp.ones(2) for number in range(leaves - 1)}
    return jax.jit(renewed, donate_argnums=0), state


@pytest.mark.parametrize("size", [100, 400], ids=["small", "too large to be kept"])
def test_an_output_that_is_donated_is_asked_where_the_host_waits_for_it(polled: Any, size: int) -> None:
    jitted, state = donating(size)
    step = polled.side.watching.watch(jitted)
    state = jax.block_until_ready(step(state))
    found, ends = [], []
    for _ in range(TRIES):
        polled.of()
        polled.events.clear()
        for _ in Steps(polled.side.loops, range(40), "train", None, None):
            state = jax.block_until_ready(step(state))
            ends.append(now())
        time.sleep(0.1)
        done = polled.of(StepCompleted)
        assert not step._jaxobs_calls.leaf.exhausted
        if len(done) > 1:
            spacing = (done[-1].time - done[0].time) / (ends[done[-1].step] - ends[done[0].step])
            found.append(spacing)
            if 0.7 <= spacing <= 1.4:
                return
    pytest.fail(f"time between completions as a share of that between the same steps' ends: {found}")


def test_a_loss_beside_donated_state_is_found_at_once(polled: Any) -> None:
    jitted, state = donating(300, leaves=100)
    inner = jitted.__wrapped__
    step = polled.side.watching.watch(
        jax.jit(lambda state: (inner(state), state["w"].sum() + jnp.ones(4)), donate_argnums=0)
    )
    deadline = time.monotonic() + 30.0  # a loaded machine runs ahead late
    while not polled.of(StepCompleted) and time.monotonic() < deadline:
        for _ in Steps(polled.side.loops, range(10), "train", None, None):
            state, _ = step(state)
    assert polled.of(StepCompleted)
    assert not step._jaxobs_calls.leaf.exhausted


def test_where_every_output_is_donated_nothing_is_reported_and_nothing_raises(polled: Any) -> None:
    jitted, state = donating(250)
    step = polled.side.watching.watch(jitted)
    deadline = time.monotonic() + 30.0  # a loaded machine runs ahead late
    while not step._jaxobs_calls.leaf.exhausted and time.monotonic() < deadline:
        for _ in Steps(polled.side.loops, range(20), "train", None, None):
            state = step(state)
    if not step._jaxobs_calls.leaf.exhausted:
        assert polled.of(StepCompleted)
        pytest.skip("calls wait for what is donated to them here, as in JAX 0.6 on CPUs")
    jax.block_until_ready(state)
    polled.of()
    polled.events.clear()
    for _ in range(50):
        state = step(state)
    time.sleep(0.1)
    assert polled.of(StepCompleted, ExecutableRan) == []


def test_a_large_output_is_asked_without_being_kept_alive() -> None:
    small, large = jnp.ones(SMALL // 4), jnp.ones(SMALL // 4 + 1)
    assert OutputLeaf().take({"logits": large, "rest": small}) is small
    assert OutputLeaf().take({"logits": large})() is large


def test_the_smallest_output_is_asked_and_after_it_was_donated_the_next_that_is_not() -> None:
    def results() -> Any:
        return {"big": jnp.ones(100)}, [jnp.ones(2), jnp.ones(3)], jnp.ones(())

    def donate(result: Any) -> None:
        result[2].delete()
        result[1][0].delete()

    leaf, first, second, third = OutputLeaf(), results(), results(), results()
    assert leaf.take(first) is first[2]
    donate(first)
    leaf.lost()
    assert leaf.take(second) is second[2]
    donate(second)
    assert leaf.take(third) is third[1][1]
    leaf.lost()
    assert not leaf.exhausted
    other = (third[0], None, third[2])  # of another structure: that way is closed
    assert leaf.take(other) is third[0]["big"]


def test_after_many_losses_in_a_row_no_more_is_asked() -> None:
    leaf, result = OutputLeaf(), jnp.ones(2)
    for _ in range(LOST_IN_A_ROW - 1):
        leaf.take(result)
        leaf.lost()
    leaf.found()
    for _ in range(LOST_IN_A_ROW):
        assert not leaf.exhausted
        leaf.take(result)
        leaf.lost()
    assert leaf.exhausted
