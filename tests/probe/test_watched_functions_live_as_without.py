"""How long watched functions live, what they are to JAX and to the user's messages: as if they were not watched."""

from __future__ import annotations

import gc
import io
import logging
import os
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxobs
from jaxobs.model.events import UNMARKED, Compilation, FunctionWatched, StepEnded
from jaxobs.plugin.threads import Thread
from jaxobs.probe.steps.values import RecordedValues
from jaxobs.probe.watch import registry
from jaxobs.probe.watch.watched import calls_of
from tests.probe.conftest import Observed
from tests.probe.watched_runs import step

OURS = Path(jaxobs.__file__).parent


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What dies does so because nothing refers to it, as in plain JAX."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def closure_over(data: Any) -> Callable[..., Any]:
    return jax.jit(lambda weight: (weight * data).sum())


def test_a_function_that_is_let_go_of_is_freed_at_once_with_all_that_it_holds(
    observed: Any, without_collector: None
) -> None:
    def trial() -> weakref.ref[Any]:
        data = jnp.full((1000,), 2.0)
        watched = observed.side.watching.watch(closure_over(data))
        with step(observed):
            assert float(watched(jnp.float32(1.0))) == 2000.0
        watched(jnp.float32(1.0))
        return weakref.ref(data)

    assert [trial()() for _ in range(3)] == [None] * 3


def test_a_trainer_that_watches_its_own_method_is_freed_as_any_circle(observed: Any) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.step = observed.side.watching.watch(jax.jit(self._step))

        def _step(self, x: Any) -> Any:
            return x + 1

    trainer = Trainer()
    assert float(trainer.step(1.0)) == 2.0
    held = weakref.ref(trainer)
    del trainer
    gc.collect()
    assert held() is None


def test_calls_of_a_function_that_died_are_counted_and_its_number_is_used_again(observed: Any) -> None:
    def trial() -> None:
        watched = observed.side.watching.watch(jax.jit(lambda x: x + 1))
        for _ in range(5):
            watched(1.0)

    for _ in range(3):
        trial()
        gc.collect()
        observed.of()
    assert [event.loop for event in observed.of(StepEnded)] == [UNMARKED] * 15
    numbers = {event.number for event in observed.of(FunctionWatched) if event.function == "<lambda>"}
    assert len(numbers) == 1


def test_watching_again_gives_the_same_object_for_as_long_as_the_function_lives(observed: Any) -> None:
    watch = observed.side.watching.watch
    jitted = jax.jit(lambda x: x + 1)
    assert watch(jitted) is watch(jitted)
    first = id(watch(jitted))
    gc.collect()
    assert id(watch(jitted)) == first

    copied = jax.jit(lambda x: x + 2)
    vars(copied).update(vars(jitted))  # as functools.wraps does
    assert watch(copied) is not watch(jitted)
    assert (float(watch(copied)(1.0)), float(watch(jitted)(1.0))) == (3.0, 2.0)

    def plain() -> int:
        return 5

    held = watch(plain)
    assert watch(plain) is held


def compiles(observed: Any, run: Callable[[], Any]) -> int:
    before = len(observed.of(Compilation))
    run()
    return len(observed.of(Compilation)) - before


@pytest.mark.parametrize("how", ["static argument", "jax.jit", "jax.lax.map"])
def test_watching_again_and_again_costs_no_compile(observed: Any, how: str) -> None:
    x = jnp.ones(3)
    jax.lax.map(lambda x: x, x)  # whatever else it compiles once

    def run(watch: Callable[[Any], Any]) -> int:
        jitted = jax.jit(lambda x: x + 1)
        apply = jax.jit(lambda function, x: function(x), static_argnums=0)

        def calls() -> None:
            for _ in range(5):
                if how == "static argument":
                    apply(watch(jitted), x)
                elif how == "jax.jit":
                    jax.jit(watch(jitted))(x)
                else:
                    jax.lax.map(watch(jitted), x)

        return compiles(observed, calls)

    assert run(observed.side.watching.watch) == run(lambda function: function)


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is watched yet, and nothing is remembered of how many other tests have watched in this process."""
    monkeypatch.setattr(registry, "_watched", {})
    monkeypatch.setattr(registry, "_most", 100)


@pytest.mark.usefixtures("empty_registry")
def test_many_watches_leave_nothing_behind(observed: Any) -> None:
    jitted, x = jax.jit(lambda x: x + 1), jnp.ones(3)
    for _ in range(1_000):
        observed.side.watching.watch(jitted)(x)
        observed.side.watching.watch(jax.jit(lambda x: x))
    gc.collect()
    observed.of()
    assert len(registry._living()) < 100
    assert len(registry._watched) < 100
    assert len(observed.side.watching._numbers) < 100


@pytest.mark.usefixtures("empty_registry")
def test_of_very_many_watched_functions_all_are_looked_at_only_when_their_number_has_doubled(
    observed: Any,
) -> None:
    kept = [observed.side.watching.watch(jax.jit(lambda x: x)) for _ in range(3000)]
    assert len(kept) <= len(registry._watched) < registry._most <= 2 * len(registry._watched)


def test_a_second_observer_sees_what_the_first_watched() -> None:
    first = Observed()
    first.side.start_probes()
    watched = first.side.watching.watch(jax.jit(lambda x: x + 1))
    watched(1.0)
    first.side.stop(0.0)
    watched(1.0)  # nobody observes
    second = Observed()
    second.side.start_probes()
    for _ in range(4):
        watched(1.0)
    again = second.side.watching.watch(watched)
    calls = [event.loop for event in second.of(StepEnded)]
    second.side.stop(0.0)
    assert again is watched
    assert calls == [UNMARKED] * 4


AGAIN = """
import jax, jax.numpy as jnp, jaxobs
product, small, large = jax.jit(lambda a: (a @ a).sum()), jnp.ones((32, 32)), jnp.ones((64, 64))
for _ in range(3):
    with jaxobs.instrument(prometheus=False) as obs:
        watched = obs.watch(product)
        for number in obs.steps(range(100)):
            watched(small if number % 4 else large)
    print(sorted((entry["cost"]["flops"] > 200_000, entry["runs"]) for entry in obs.final_snapshot["executables"]))
"""


def test_it_ends_also_where_the_job_has_ended_a_thread_that_it_does_not_know() -> None:
    side = Observed().side
    side.start_probes()
    side.watching.watch(jax.jit(lambda x: x + 1))(1.0)
    # The thread that was to do all that the end takes.
    side._threads["completions"] = Thread("completions", lambda: None)
    ending = threading.Thread(target=side.stop, args=(0.0,), daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive()
    assert side.loops.over
    assert not any(outputs.waiting for outputs in side.completions._outputs.values())


def test_of_what_is_watched_after_the_end_nothing_is_noted() -> None:
    ended = Observed()
    ended.side.start_probes()
    ended.side.stop(0.0)
    # As a launcher's `jax.jit` does that a script has kept, in a child that it forks too.
    found = ended.side.watching.watch(jax.jit(lambda x: x + 1))
    assert float(found(1.0)) == 2.0
    assert calls_of(found) is None


def test_an_observer_in_the_same_process_knows_what_was_compiled_before_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGAIN], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "JAXOBS_SHUTDOWN_TIMEOUT": "60"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[(False, 75), (True, 25)]\n" * 3), done.stderr


class Linear:
    """A callable that is a pytree with an array, as modules of Equinox are."""

    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def __call__(self, x: Any) -> Any:
        return x * self.weight


jax.tree_util.register_pytree_node(Linear, lambda it: ((it.weight,), None), lambda _, arrays: Linear(*arrays))

PYTREE = """
import jax, jax.numpy as jnp, jaxobs, logging
from tests.probe.test_watched_functions_live_as_without import Linear
obs = jaxobs.instrument(prometheus=False)
model = obs.watch(Linear(jnp.ones(2)))
losses = []
for _ in range(3):
    loss, slope = jax.value_and_grad(lambda m: ((m(2.0) - 4.0) ** 2).sum())(model)
    model = jax.tree.map(lambda w, s: w - 0.1 * s, model, slope)
    losses.append(float(loss))
print(losses[0] > losses[-1], type(model).__name__)
"""


def test_a_pytree_with_arrays_is_given_back_as_it_is_with_a_warning() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PYTREE], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "True Linear\n"), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "obs.watch" in line]
    assert "a pytree with arrays" in line
    assert "watch the jitted functions that it calls, or that take it as an argument" in line


def test_messages_and_source_lines_of_jax_name_the_users_line(observed: Any) -> None:
    watch, buffer = observed.side.watching.watch, io.StringIO()
    handler = logging.StreamHandler(buffer)
    logging.getLogger("jax").addHandler(handler)
    try:
        watched = watch(jax.jit(lambda x: jnp.sin(x) + 1))
        watched(jnp.ones(3))
        with jax.explain_cache_misses(True):
            watched(jnp.ones(5))
    finally:
        logging.getLogger("jax").removeHandler(handler)
    misses = [line for line in buffer.getvalue().splitlines() if "CACHE MISS" in line]
    assert misses
    assert all(Path(__file__).name in line for line in misses), misses

    inner = watch(jax.jit(lambda x: x * 2))

    def outer(x: Any) -> Any:
        return inner(x) + 1

    from jax._src import source_info_util

    jaxpr = jax.make_jaxpr(outer)(jnp.ones(3))
    assert Path(__file__).name in source_info_util.summarize(jaxpr.eqns[0].source_info)
    lowered = jax.jit(outer).lower(jnp.ones(3))
    for text in (lowered.as_text(debug_info=True), lowered.compile().as_text()):
        files = set(re.findall(r'"([^"]*\.py)"', text or ""))
        assert not [file for file in files if Path(file).is_relative_to(OURS)], files


RAISES = """
import jax, jax.numpy as jnp
{observe}
@watch
@jax.jit
def train_step(x):
    return jnp.dot(x, jnp.ones(7))
def main():
    train_step(jnp.ones(3))
main()
"""


def test_a_traceback_shows_no_line_of_ours() -> None:
    printed = []
    for observe in (
        "watch = lambda f: f",
        "import jaxobs; watch = jaxobs.instrument(prometheus=False).watch",
    ):
        source = RAISES.format(observe=observe)
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 1
        printed.append(done.stderr)
    assert printed[1] == printed[0]


def test_a_traced_value_is_refused_at_once() -> None:
    lines: list[str] = []
    recorded = RecordedValues(Observed().side.loops.current, lines.append)

    def traced(x: Any) -> Any:
        recorded.record({"inner": x.sum()})
        return x * 2

    with jax.checking_leaks():
        jax.jit(traced)(jnp.ones(2))
    assert recorded.ready() == []
    assert lines == ["record(inner=…): a traced value has no number: record it outside the jitted function"]
