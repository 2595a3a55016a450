"""Loops of millions of operations a second: no `stop()` of a window of ours takes long, and the budget holds."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs_plugins.probes.profiler import windows
from jaxobs_plugins.probes.profiler.recording import Allocated
from jaxobs_plugins.probes.profiler.schedule import PLANNED_BYTES, Pace
from tests.profiler.jax_versions import sees_a_cpu
from tests.waiting import wait_for

pytestmark = [
    sees_a_cpu,
    pytest.mark.skipif(Allocated()() is None, reason="malloc here does not tell what is allocated"),
]

LITTLE = 8 * 2**20
"""Bytes of events that a scheduled window may hold here, so that the tests are quick: 30 000 events."""


class Changing:
    """A thread that runs a loop of few operations, and from `change` on one of millions a second."""

    def __init__(self, observed: Any) -> None:
        self._observed = observed
        self._stop = False
        self.pause = 0.0005
        self._calm = jax.jit(lambda x: jnp.tanh(x @ x) * 1e-3)
        self._dense = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda _, y: jnp.sort(y) + 1.0, x))
        self._run_calm = lambda: self._calm(jnp.ones((256, 256)))
        self._run_dense = lambda: self._dense(jnp.ones(4))
        self._run_calm().block_until_ready()
        self._run_dense().block_until_ready()
        self._next: Callable[[], Any] = self._run_calm
        observed.job.compiled = time.monotonic_ns()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def change(self) -> None:
        self._next = self._run_dense

    def _run(self) -> None:
        while not self._stop:
            self._next().block_until_ready()
            self._observed.job.steps += 1
            time.sleep(self.pause)

    def stop(self) -> None:
        self._stop = True
        self._thread.join()


@pytest.fixture
def changing(observe: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Changing]]:
    monkeypatch.setattr(Pace, "is_steady", lambda self: True)
    monkeypatch.setattr(windows, "STOP_PATIENCE", 60.0)  # beside ten busy processes it takes six seconds
    observed = observe()
    loop = Changing(observed)
    yield observed, loop
    loop.stop()


def window(observed: Any) -> Any:
    """The next window, as soon as it may be made."""
    made = observed.probe._windows
    made.scheduled()
    return observed.windows()[-1]


@pytest.mark.parametrize("pause", [0.0005, 0.02], ids=["always", "now and then"])
def test_the_first_window_over_such_a_loop_is_very_short_and_so_are_the_next(
    changing: tuple[Any, Changing], pause: float
) -> None:
    observed, loop = changing
    loop.pause = pause
    loop.change()
    before = observed.job.steps
    wait_for(lambda: observed.job.steps > before + 3, "a few dense steps")
    made = [window(observed) for _ in range(2)]
    while [each.outcome for each in made].count("read") < 2 and len(made) < 20:
        made.append(
            window(observed)
        )  # one may have fallen into a pause, or into what others had of the machine
    # The short recording before the first may have lain in a pause, as the time of another thread counts as well: the
    # first is then ended by what it holds.
    for each in made[made[0].outcome == "too_large" :]:
        assert each.outcome in ("read", "empty"), each.reason
        assert each.end - each.start < 1e9  # and not the seconds of a window over slow steps
    assert [each.outcome for each in made].count("read") >= 2
    schedule = observed.probe._windows.schedule
    assert schedule.next_length(1.0) * schedule.density <= PLANNED_BYTES * 1.01
    assert schedule.due() >= schedule.began + schedule.spent / schedule.ratio


def long_windows(observed: Any) -> Any:
    """As in a job of slow steps and few operations."""
    made = observed.probe._windows
    made.schedule = dataclasses.replace(made.schedule, density=10_000.0)
    made._looked_at = observed.job.compiled
    made._pace._changes.extend([(0.0, 0), (1.0, 2)])
    assert made.schedule.next_length(made._pace.step_seconds) > 2.0
    return made


def test_a_long_window_that_meets_such_a_loop_is_thrown_away_and_the_next_is_short(
    changing: tuple[Any, Changing], monkeypatch: pytest.MonkeyPatch
) -> None:
    observed, loop = changing
    monkeypatch.setattr(windows, "MAX_HELD", LITTLE)
    made = long_windows(observed)
    planned = made.schedule.next_length(made._pace.step_seconds)
    loop.change()
    refused = window(observed)
    assert (refused.outcome, refused.xspace) == ("too_large", None)
    assert "thrown away" in refused.reason
    assert refused.end - refused.start < planned * 1e9
    assert made.schedule.next_length(0.5) < 1.0
    again = window(observed)
    # A held-up machine adds to its tenth of a second; a long one has two.
    assert again.end - again.start < 1.5e9
    assert made.schedule.due() >= made.schedule.began + made.schedule.spent / made.schedule.ratio


def test_where_memory_does_not_tell_the_window_is_too_short_to_have_many(
    changing: tuple[Any, Changing], monkeypatch: pytest.MonkeyPatch
) -> None:
    observed, _ = changing
    made = long_windows(observed)
    monkeypatch.setattr(made, "_allocated", lambda: None)
    made._allocated.tells = False
    unwatched = window(observed)
    assert unwatched.end - unwatched.start < 1.5e9


def test_over_many_windows_of_such_a_loop_no_more_is_spent_than_the_budget_and_one_window(
    changing: tuple[Any, Changing], monkeypatch: pytest.MonkeyPatch
) -> None:
    observed, loop = changing
    loop.change()
    made = observed.probe._windows
    skipped = 0.0  # the waiting for the next window, which the test does not do
    real = time.monotonic
    monkeypatch.setattr("jaxobs_plugins.probes.profiler.windows.monotonic", lambda: real() + skipped)
    for _ in range(4):
        due = made.due(observed.job.progress())
        skipped += max(0.0, due - (real() + skipped))
        told = window(observed)
        wall = real() + skipped - made.schedule.began
        assert made.schedule.spent <= made.schedule.ratio * wall + told.cost / 1e9 + 1e-6
    # More than what the windows cost where some were empty, as those of a few milliseconds are whenever this thread has
    # to wait for a processor: the pauses after them are longer than unused budget is kept.
    cost = sum(each.cost for each in observed.windows()) / 1e9
    assert made.schedule.spent >= cost - 1e-6
    if all(each.outcome != "empty" for each in observed.windows()):
        assert made.schedule.spent == pytest.approx(cost)
