"""Device time by polling: about what blocking would have measured, and never a word where it cannot be known."""

from __future__ import annotations

import statistics
import sys
import threading
import time
import tracemalloc
import weakref
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.model.clock import NANOSECONDS, now
from jaxobs.model.events import ExecutableRan, StepCompleted
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.steps.loops import (
    COMPLETIONS,
    PAIRED,
    PASSES_APART,
    AskedTurns,
    LoopState,
    Step,
)
from jaxobs.probe.steps.marks import StepMark
from jaxobs.probe.watch.completions import MAX_OUTPUTS, Completions, Output, Outputs
from jaxobs.probe.watch.signatures import LARGE, SMALL, OutputLeaf, holds_up
from tests.waiting import wait_for

STEP = 0.012
STEPS = 100
TRIES = 4
ABOUT = 20
"""Steps beside which a run is held: those that ended next to it, before and after."""
"""Loops in which runs are timed: few in each, and fewer where the machine is busy with something else."""

FLAGS = 200_000_000
"""Nanoseconds by which an output may say late that it is ready: on a loaded machine the backend's thread is held up
between two of them: by 68 ms where sixteen threads wanted two processors."""


def a_step(wanted: float = STEP) -> tuple[Callable[[Any], Any], Any]:
    """A jitted step of about so many seconds, with a loss beside its state."""
    x = jnp.ones((128, 128)) / 128

    def build(turns: int) -> Callable[[Any], Any]:
        @jax.jit
        def train_step(state: Any) -> Any:
            state = jax.lax.fori_loop(0, turns, lambda _, a: a @ x + 1e-3, state)
            return state, state.sum()

        train_step(x)
        return train_step

    turns = 10
    while (seconds := blocked(build(turns), x, 3)) < wanted / 2:
        turns = int(turns * min(10.0, max(2.0, wanted / seconds)))
    return build(turns), x


def blocked(step: Callable[[Any], Any], state: Any, count: int) -> float:
    """Seconds of one step, as the least disturbed ones show."""
    times = []
    for _ in range(count):
        started = time.perf_counter()
        jax.block_until_ready(step(state))
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def test_device_seconds_are_those_of_blocking(polled: Any) -> None:
    """By the job's clock of the runs about that moment: a loaded machine makes some of them longer than others."""
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    jax.block_until_ready(watched(state))
    polled.of()
    polled.events.clear()
    began = now()  # the end of that first run may be told later
    took: list[tuple[int, float]] = []
    for _ in range(TRIES):
        for _ in Steps(polled.side.loops, range(STEPS), "train", None, None):
            before = now()
            state, loss = watched(state)
            loss.block_until_ready()
            took.append((now(), (now() - before) / NANOSECONDS))
        time.sleep(0.1)
        if len(runs := [run for run in polled.of(ExecutableRan) if run.time > began]) > 2:
            break
    assert runs
    for run in runs:
        about_then = sorted(took, key=lambda one: abs(one[0] - run.time))[:ABOUT]
        assert run.seconds - run.uncertainty <= max(seconds for _, seconds in about_then)
        # A thread that is held up makes its turn longer, and not the run.
        assert run.seconds + run.uncertainty >= min(seconds for _, seconds in took) / 2
        assert run.uncertainty <= run.seconds


def test_runs_that_the_host_waits_for_in_each_turn_are_timed(polled: Any) -> None:
    """Of turns that are not all asked, one that follows upon another is polled: the device is known idle before it."""
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    deadline = time.monotonic() + 60

    def timed() -> list[ExecutableRan]:
        ran = polled.of(ExecutableRan)[COMPLETIONS:]  # each of the first turns is asked
        return [run for run in ran if run.uncertainty <= 0.15 * run.seconds]

    while len(timed()) < 3 and time.monotonic() < deadline:
        for _ in Steps(polled.side.loops, range(STEPS), "train", None, None):
            state, loss = watched(state)
            loss.block_until_ready()
    assert len(timed()) >= 3


def test_a_run_beside_calls_of_another_thread_is_not_timed(polled: Any) -> None:
    """They may hold up the device: one thread of a pool was told the time of all its runs."""
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    jax.block_until_ready(watched(state))
    stopped = threading.Event()

    def other() -> None:
        while not stopped.is_set():
            jax.block_until_ready(watched(state))

    thread = threading.Thread(target=other)
    thread.start()
    wait_for(lambda: polled.side.loops.unmarked.others, "a call of the other thread", 30)
    polled.of()
    polled.events.clear()
    began = now()
    for _ in Steps(polled.side.loops, range(STEPS), "train", None, None):
        watched(state)[1].block_until_ready()
    ran = [run for run in polled.of(ExecutableRan) if run.time > began]
    stopped.set()
    thread.join()
    assert polled.of(StepCompleted)
    assert not ran


@pytest.mark.parametrize("sync_every", [1, 10, 10**9], ids=["synced", "each tenth", "not synced"])
def test_each_completion_lies_where_it_says(polled: Any, sync_every: int) -> None:
    """By the clock of the job, which waits for one step after the other beside the loop."""
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    watched(state)
    losses: list[Any] = []
    done: dict[int, tuple[int, int]] = {}

    def wait() -> None:
        for number in range(STEPS):
            while len(losses) <= number:
                time.sleep(0.0005)
            before = now()
            unfinished = not losses[number].is_ready()
            losses[number].block_until_ready()
            done[number] = (before if unfinished else 0, now())

    waiting = threading.Thread(target=wait)
    waiting.start()
    for number in Steps(polled.side.loops, range(STEPS), "train", None, None):
        state, loss = watched(state)
        losses.append(loss)
        if (number + 1) % sync_every == 0:
            loss.block_until_ready()
    waiting.join()
    time.sleep(0.1)
    told = [event for event in polled.of(StepCompleted) if event.loop]
    assert told  # how many depends on how often the other thread has its turn
    for event in told:
        earliest, latest = done[event.step]
        assert event.time - event.uncertainty <= latest + FLAGS
        assert event.time + event.uncertainty >= earliest
    assert all(earlier.step < later.step and earlier.time < later.time for earlier, later in pairwise(told))


def test_when_the_last_step_is_done_is_told_wherever_the_host_is(polled: Any) -> None:
    polled.side.completions._interval = 2.0  # what is off by more is not told; busy machines are by 0.5 s
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    watched(state)
    for _ in Steps(polled.side.loops, range(20), "train", None, None):  # tells how long a pass is
        state, loss = watched(state)
    loss.block_until_ready()
    time.sleep(PASSES_APART / NANOSECONDS)  # of passes closer to each other the ends are not asked for
    last = 39
    for _ in Steps(polled.side.loops, range(20), "train", None, None):
        state, loss = watched(state)
    loss.block_until_ready()
    done = now()
    deadline = time.monotonic() + 30
    while not (all_told := polled.of(StepCompleted)) or all_told[-1].step < last:
        assert time.monotonic() < deadline, all_told
        time.sleep(0.05)
    told = all_told[-1]
    assert told.step == last
    assert told.time - told.uncertainty <= done + FLAGS


class Between(deque[Output]):
    """Outputs in whose place the training thread puts `newest` just after the polling thread has looked at them."""

    newest: Output

    def copy(self) -> Any:
        seen = deque(self)
        self.clear()
        self.append(self.newest)
        return seen


def test_a_last_step_is_told_also_where_the_one_after_it_would_have_been_polled(polled: Any) -> None:
    """Steps marked one by one end without a word that no further one comes."""
    step, state = a_step(1.5 * STEP)  # on a processor that is twice as fast later each fifth is asked, still
    watched = polled.side.watching.watch(step)
    turns = polled.side.loops.state("train")

    def one() -> tuple[int, bool]:
        """Make a step; its number, and whether it was asked by count."""
        number: int = turns.steps
        with StepMark(polled.side.loops, "train", None, None):
            jax.block_until_ready(watched(state))
            return number, turns.counted and turns.every <= PAIRED

    for _ in range(4):
        last, asked = one()
        while last < 2 * STEPS or not asked:
            last, asked = one()
        wait_for(lambda: last in [done.step for done in polled.of(StepCompleted)], f"the end of step {last}")  # noqa: B023


def test_an_output_that_comes_between_is_not_let_go_of_with_those_before_it() -> None:
    outputs, turns = Outputs(), AskedTurns("train")
    earlier, done, newest = (Output(turns, number, 1, number, number + 1) for number in range(3))
    for output in (earlier, done, newest):
        output.way = OutputLeaf()
    done.seen(10)
    outputs.waiting = Between([earlier, done])
    outputs.waiting.newest = newest
    outputs.done_up_to(done)
    assert list(outputs.waiting) == [newest]
    assert [earlier.told, done.told, newest.told] == [True, True, False]


def test_short_turns_of_short_passes_are_ended_the_short_way(polled: Any) -> None:
    loops, ended = polled.side.loops, []
    step = polled.side.watching.watch(jax.jit(lambda x: x + 1))

    def passes() -> LoopState:
        for _ in range(600):  # what compiles, and what comes before two completions
            for _ in Steps(loops, range(2), "train", None, None):
                step(jnp.ones(()))
        state: LoopState = loops.state("train")
        return state

    # Where the machine has held up the newest turns, the few milliseconds of those below do not show how short they are.
    wait_for(
        lambda: passes().completions >= COMPLETIONS and passes().every > 1, "two completions of short turns"
    )
    end_step = loops.end_step
    loops.end_step = lambda *all: (ended.append(all[1].number), end_step(*all))
    for _ in range(20):
        for _ in Steps(loops, range(500), "train", None, None):
            pass
    assert len(ended) < 2_000


def test_one_sample_that_dies_does_not_end_the_sampling(polled: Any) -> None:
    """A function whose output is deleted at once, among others whose outputs are not."""
    step = polled.side.watching.watch(jax.jit(lambda x: (x @ x).sum()))
    x = jnp.ones((300, 300))
    for _ in range(30):
        step(x).delete()
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


def test_two_threads_that_look_at_the_same_outputs_do_not_trip_over_each_other() -> None:
    completions = Completions(lambda event: None, 1.0)
    array, turns = jnp.ones(()), LoopState("train")
    way, step, running, failed = OutputLeaf(), Step(turns), True, []

    def poll() -> None:
        while running:
            try:
                completions._unfinished()
                completions._tell_newest(1.0)
                completions.let_go()
            except Exception as error:  # noqa: BLE001  # shown below
                failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=poll)
    thread.start()
    try:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            completions.called(way, array, Output(turns, 1, 1, 1, 2), step, (), {})
            completions.turn_ended(step)
    finally:
        running = False
        thread.join()
        sys.setswitchinterval(interval)
    assert not failed
    assert not way.exhausted


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


def timed(polled: Any, turn: Callable[[], Any]) -> list[ExecutableRan]:
    """The runs that are timed in a loop whose host waits for each."""
    for number in Steps(polled.side.loops, range(STEPS), "train", None, None):
        if number == 1:  # the first may be timed: nothing was before it
            polled.of()
            polled.events.clear()
        jax.block_until_ready(turn())
    time.sleep(0.1)
    assert polled.of(StepCompleted)
    runs: list[ExecutableRan] = polled.of(ExecutableRan)
    return runs


def test_what_a_run_waits_for_that_is_not_watched_is_no_time_of_its_own(polled: Any) -> None:
    before, state = a_step()
    watched = polled.side.watching.watch(jax.jit(lambda batch: (batch["x"] * 0.5).sum()))
    watched({"x": state}).block_until_ready()
    waits = []

    def turn() -> Any:
        given = before(state)[0]
        out = watched({"x": given})
        waits.append(not given.is_ready())
        return out

    # One that began late, on a loaded machine, may have waited for nothing.
    found = timed(polled, turn)
    assert any(waits)
    assert len(found) <= waits.count(False)


def test_a_run_beside_one_of_another_thread_is_not_timed(polled: Any) -> None:
    step, state = a_step()
    watched = polled.side.watching.watch(step)
    other = polled.side.completions._outputs[-1]
    working = Output(AskedTurns("other"), 0, 1, 1, 2)
    working.leaf, working.way = Unready(), OutputLeaf()
    other.add(working, 1)
    assert not timed(polled, lambda: watched(state))
    other.remove(working)


class Unready:
    def is_deleted(self) -> bool:
        return False

    is_ready = is_deleted


def test_a_call_is_held_up_by_what_is_computed_or_transferred_for_it() -> None:
    ready, large = jnp.ones(3).block_until_ready(), np.ones(LARGE // 8 + 1)
    donated = jnp.ones(3)
    donated.delete()
    for free in (ready, donated, np.ones(3), 1.0, "text", None, [ready], {"x": ready}, np.dtype("float32")):
        assert not holds_up((ready, free), {"given": free})
    for held in (large, [large], {"x": large}, (ready, large)):
        assert holds_up((ready, held), {})
        assert holds_up((), {"given": held})


@pytest.mark.parametrize(
    "kind", [list, tuple, lambda leaves: dict(enumerate(leaves))], ids=["list", "tuple", "dict"]
)
def test_of_a_flat_state_of_many_arrays_a_call_looks_at_a_few(kind: Callable[..., Any]) -> None:
    """Else each step whose end is asked would take longer by 0.25 µs an array."""
    state = kind([jnp.ones(()).block_until_ready()] * 10_000)
    assert not holds_up((state,), {"state": state})
    tracemalloc.start()
    try:
        assert not holds_up((state,), {"state": state})
        assert tracemalloc.get_traced_memory()[1] < 20_000, "a list of all of it was made"
    finally:
        tracemalloc.stop()


def test_where_turns_call_two_functions_the_ends_of_both_are_told(polled: Any) -> None:
    """The host waits behind the second, so that the first call of each round is one of the first.

    Of turns of more than ASKED_APART each leaves an output, and then the first alone is told, which is enough: it is far
    from that, so that a busy machine does not come near it.
    """
    long, state = a_step(STEP / 6)
    first = polled.side.watching.watch(long)
    second = polled.side.watching.watch(jax.jit(lambda x: (x * 0.5).sum()))
    told: list[int] = []
    deadline = time.monotonic() + 10
    while {step % 2 for step in told[1:]} != {0, 1} and time.monotonic() < deadline:
        state, _ = first(state)
        second(state).block_until_ready()
        told = [event.step for event in polled.of(StepCompleted)]
    assert {step % 2 for step in told[1:]} == {0, 1}
    assert told == sorted(told)


def bytes_alive(results: list[weakref.ref[Any]]) -> list[int]:
    return [result.nbytes for result in (each() for each in results) if result is not None]


def test_of_results_that_the_job_drops_few_small_ones_are_alive_and_only_until_they_are_done(
    polled: Any,
) -> None:
    # So long that a host that others keep waiting is ahead of the device all the same.
    def long(x: Any) -> Any:
        return jax.lax.fori_loop(0, 90, lambda _, a: jnp.tanh(a @ a) * 1e-3, x)

    x, deadline = jnp.ones((300, 300)), time.monotonic() + 60
    for jitted, kept in (
        (jax.jit(lambda x: (long(x), long(x).sum())), MAX_OUTPUTS),
        (jax.jit(lambda x: (long(x), long(x)[:100, :100])), 3),
        (jax.jit(lambda x: (long(x), long(x) + 1)), 0),  # all are large
    ):
        watched = polled.side.watching.watch(jitted)
        jax.block_until_ready(watched(x))
        results: list[weakref.ref[Any]] = []
        most = 0
        for _ in Steps(polled.side.loops, range(20), "train", None, None):
            results += map(weakref.ref, watched(x))
            alive = bytes_alive(results)
            most = max(most, len(alive))
            assert all(size <= SMALL for size in alive)
        assert most <= kept
        assert kept == 0 or most > 0
        while bytes_alive(results):
            time.sleep(0.001)
            assert time.monotonic() < deadline
