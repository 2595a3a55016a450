"""Device time by polling: about what blocking would have measured, and never a word where it cannot be known."""

from __future__ import annotations

import statistics
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import UNMARKED, ExecutableRan, StepCompleted
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.watch.polling.completions import Completions
from jaxobs.probe.watch.polling.output_leaf import SMALL, OutputLeaf
from jaxobs.probe.watch.polling.samples import Sample, completions_of, spaced_from

STEP = 0.012
STEPS = 100
TRIES = 4
"""The machine may be busy with something else: one good try of these shows that the method is right."""


def a_step() -> tuple[Callable[[Any], Any], Any]:
    """A jitted step of about that long, with a loss beside its state."""
    x = jnp.ones((128, 128)) / 128

    def build(turns: int) -> Callable[[Any], Any]:
        @jax.jit
        def train_step(state: Any) -> Any:
            state = jax.lax.fori_loop(0, turns, lambda _, a: a @ x + 1e-3, state)
            return state, state.sum()

        train_step(x)
        return train_step

    turns = 50
    while (seconds := blocked(build(turns), x, 3)) < STEP / 2:
        turns = int(turns * min(10.0, max(2.0, STEP / seconds)))
    return build(turns), x


def blocked(step: Callable[[Any], Any], state: Any, count: int) -> float:
    """Seconds of one step, as the least disturbed ones show."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        jax.block_until_ready(step(state))
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def train(observed: Any, step: Callable[[Any], Any], state: Any, count: int, *, sync_every: int) -> float:
    """Seconds of one step of the whole loop."""
    started = time.perf_counter()
    for number in Steps(observed.side.loops, range(count), "train", None, None):
        state, loss = step(state)
        if (number + 1) % sync_every == 0:
            loss.block_until_ready()
    jax.block_until_ready(state)
    return (time.perf_counter() - started) / count


@pytest.mark.parametrize("sync_every", [1, 10**9], ids=["synced", "not synced"])
def test_spacing_and_device_seconds_are_those_of_blocking(polled: Any, sync_every: int) -> None:
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    watched(state)
    found = []
    for _ in range(TRIES):
        polled.of()
        polled.events.clear()
        seconds = statistics.mean(
            [blocked(step, state, 3), train(polled, watched, state, STEPS, sync_every=sync_every)]
        )
        time.sleep(0.1)
        done = polled.of(StepCompleted)
        ran = [event.seconds for event in polled.of(ExecutableRan)]
        assert len(done) >= 2
        spacing = (done[-1].time - done[0].time) / 1e9 / (done[-1].step - done[0].step)
        device = statistics.median(ran) if ran else float("nan")
        found.append((spacing / seconds, device / seconds))
        if all(0.5 <= ratio <= 2.0 for ratio in found[-1]):
            return
    pytest.fail(f"spacing and device seconds as shares of the blocked time: {found}")


def test_the_first_burst_tells_the_time_of_the_steps_between_its_ends(polled: Any) -> None:
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    watched(state)
    for _ in range(TRIES):
        polled.of()
        polled.events.clear()
        polled.side.completions._looked_at.clear()
        seconds = train(polled, watched, state, 20, sync_every=1)
        time.sleep(0.1)
        first, last = [event for event in polled.of(StepCompleted) if event.loop][:2]
        if (
            last.step - first.step < 4
            and 0.5 <= (last.time - first.time) / 1e9 / (last.step - first.step) / seconds <= 2
        ):
            return
    pytest.fail(f"{first} and {last} for steps of {seconds} s")


MS = 1_000_000


def sample(step: int, ready: int, *, run: int = 1, loop: str = "train", uncertainty: int = 0) -> Sample:
    """A call whose output was ready after so many milliseconds."""
    return Sample(
        OutputLeaf(), None, run, loop, step, 0, 0, idle_before=False, ready=ready * MS, uncertainty=uncertainty
    )  # fmt: skip


@pytest.mark.parametrize(
    ("burst", "first"),
    [
        ([sample(4, 100), sample(5, 200), sample(6, 300)], 4),
        ([sample(4, 100, uncertainty=50 * MS), sample(5, 200), sample(6, 300)], 5),
        ([sample(4, 100, run=2), sample(5, 200), sample(6, 300)], 5),
        ([sample(4, 100), sample(6, 300), sample(7, 400)], 6),
        ([sample(4, 100), sample(5, 101, uncertainty=MS)], None),
        ([sample(4, 100)], None),
    ],
    ids=[
        "a row",
        "an end that is not sure",
        "another executable",
        "a step between that compiled",
        "too short",
        "one",
    ],
)
def test_only_steps_in_a_row_between_two_sure_ends_are_told(burst: list[Sample], first: int | None) -> None:
    found = spaced_from(burst)
    assert (found and found.step) == first


@pytest.mark.parametrize(
    ("burst", "told"),
    [
        ([sample(3, 1), sample(0, 2, loop="eval"), sample(2, 3, loop="eval")], [("train", 3), ("eval", 2)]),
        ([sample(3, 1), sample(4, 2), sample(0, 3, loop="eval")], [("train", 4), ("eval", 0)]),
        ([sample(3, 1, uncertainty=MS), sample(3, 2, run=2, uncertainty=MS)], [("train", 3)]),
        (
            [sample(3, 1, run=2, loop=UNMARKED), sample(4, 2, loop=UNMARKED), sample(5, 3, loop=UNMARKED)],
            [(UNMARKED, 3), (UNMARKED, 4), (UNMARKED, 5)],
        ),
    ],
    ids=["an evaluation behind a step", "behind two", "two calls of one step", "calls without marks"],
)
def test_of_each_loop_in_a_burst_an_end_is_told(burst: list[Sample], told: list[tuple[str, int]]) -> None:
    """In a job of few steps, with an evaluation of some behind most of them, no burst may end with a step."""
    assert [(found.loop, found.step) for found in completions_of(burst)] == told


def test_one_sample_that_dies_does_not_end_the_sampling(polled: Any) -> None:
    """A function whose output is deleted at once, among others whose outputs are not."""
    step = polled.side.watching.watch(jax.jit(lambda x: (x @ x).sum()))
    x = jnp.ones((300, 300))
    for _ in range(30):
        step(x).delete()
    polled.side.completions.armed = True
    deleted = jnp.ones(()) + 1
    deleted.delete()
    polled.side.watching.watch(lambda: deleted)()
    other = polled.side.watching.watch(jax.jit(lambda x: (x + x).sum()))
    deadline = time.monotonic() + 5.0
    while not polled.of(StepCompleted) and time.monotonic() < deadline:
        for _ in Steps(polled.side.loops, range(5), "train", None, None):
            other(x)
            time.sleep(0.001)
    assert polled.of(StepCompleted)


def test_the_training_thread_does_not_trip_over_a_round_that_ends_at_that_moment() -> None:
    completions = Completions(lambda event: None, 1.0)
    seen = sample(0, 1)
    running = True

    def end_rounds() -> None:
        while running:
            completions._samples = [seen]
            completions._samples = []

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=end_rounds)
    thread.start()
    try:
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            completions.before_call()
    finally:
        running = False
        thread.join()
        sys.setswitchinterval(interval)


def test_a_run_behind_a_call_whose_output_cannot_be_asked_is_not_timed(polled: Any) -> None:
    """As an update behind a gradient that is taken outside jit: what the device did first is not the update's."""
    long, state = a_step()

    @jax.jit
    def nothing_to_ask(state: Any) -> Any:
        return long(state)[0]

    @jax.jit
    def update(state: Any) -> Any:
        return state * 0.5, state.sum()

    asked = polled.side.watching.watch(update)
    behind = polled.side.watching.watch(nothing_to_ask)
    asked(behind(state))
    behind._jaxobs_calls.leaf.exhausted = True
    time.sleep(0.1)
    first = len(polled.of(ExecutableRan))  # of its first call, which was timed by itself
    for _ in Steps(polled.side.loops, range(STEPS), "train", None, None):
        state, total = asked(behind(state))
    total.block_until_ready()
    time.sleep(0.1)
    assert len(polled.of(ExecutableRan)) == first
    assert polled.of(StepCompleted)


def test_where_turns_call_two_functions_the_ends_of_both_are_told(polled: Any) -> None:
    """The host waits behind the second, so that the first call of each round is one of the first."""
    long, state = a_step()
    first = polled.side.watching.watch(long)
    second = polled.side.watching.watch(jax.jit(lambda x: (x * 0.5).sum()))
    told: list[int] = []
    deadline = time.monotonic() + 10
    while len(told) < 4 and time.monotonic() < deadline:
        state, _ = first(state)
        second(state).block_until_ready()
        told = [event.step for event in polled.of(StepCompleted)]
    assert {step % 2 for step in told[1:]} == {0, 1}
    assert told == sorted(told)


def bytes_alive(results: list[weakref.ref[Any]]) -> list[int]:
    return [result.nbytes for result in (each() for each in results) if result is not None]


def test_of_results_that_the_job_drops_one_small_one_is_alive_and_only_until_it_is_done(polled: Any) -> None:
    def long(x: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, a: jnp.tanh(a @ a) * 1e-3, x)

    x, deadline = jnp.ones((300, 300)), time.monotonic() + 60
    for jitted, kept in (
        (jax.jit(lambda x: (long(x), long(x).sum())), 1),
        (jax.jit(lambda x: (long(x), long(x) + 1)), 0),  # all are large
    ):
        watched = polled.side.watching.watch(jitted)
        jax.block_until_ready(watched(x))
        results: list[weakref.ref[Any]] = []
        most = 0
        for _ in range(8):
            while not polled.side.completions.armed and not bytes_alive(results):
                time.sleep(0.001)  # until the next round
                assert time.monotonic() < deadline
            results += map(weakref.ref, watched(x))
            alive = bytes_alive(results)
            most = max(most, len(alive))
            assert all(size <= SMALL for size in alive)
        assert most <= kept
        while bytes_alive(results):
            time.sleep(0.001)
            assert time.monotonic() < deadline
