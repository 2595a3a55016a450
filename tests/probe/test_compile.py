"""Probe `compile`: each compile once, with its own executable, its own time, and the name of the user's function."""

from __future__ import annotations

import functools
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.cost_model import module_cost
from jaxobs.model.events import (
    Compilation,
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableCreated,
    Measured,
    StepEnded,
)
from jaxobs.probe import jax_internals
from jaxobs.probe.marks import StepMark
from jaxobs_plugins.compile import causes
from jaxobs_plugins.compile.executable import local_devices_of, memory_of, module_of

EAGER = "(eager)"


def compilations(observed: Any) -> Counter[str]:
    return Counter(event.function for event in observed.of(Compilation))


def cost_of(event: ExecutableCreated) -> Any:
    assert event.proto is not None
    return module_cost(event.proto).cost


def test_the_executable_is_the_one_that_was_made_with_its_module_and_memory(observed: Any) -> None:
    @jax.jit
    def product(a: Any, b: Any) -> Any:
        return a @ b

    product(jnp.ones((30, 20)), jnp.ones((20, 10)))
    (made,) = observed.of(ExecutableCreated)
    assert (made.function, made.devices, made.proto_reason) == ("product", 1, "")
    assert cost_of(made).matrix_flops == 2 * 30 * 20 * 10
    memory = dict(made.memory)
    assert (memory["argument"], memory["output"]) == (4 * (600 + 200), 4 * 300)
    assert {"temporary", "alias"} <= set(memory)
    assert "code" not in memory  # of which XLA's backend for CPUs says 0 bytes whatever it compiled
    compiled = [event for event in observed.of(Compilation) if event.function == "product"]
    assert [phase for phase, _, _ in compiled[0].phases] == ["trace", "lower", "backend"]
    assert (compiled[0].executable, compiled[0].recompilation) == (made.executable, None)


def test_phases_are_exclusive_of_what_is_nested_in_them(observed: Any) -> None:
    pause = 0.15

    @jax.jit
    def inner(x: Any) -> Any:
        time.sleep(pause)
        return x + 1

    @jax.jit
    def outer(x: Any) -> Any:
        time.sleep(pause)
        with jax.ensure_compile_time_eval():
            jnp.arange(7).sum()  # compiled and run while tracing
        return inner(x) * 2

    started = time.monotonic()
    outer(jnp.ones(3))
    took = time.monotonic() - started
    ended = observed.of(CompilePhaseEnded)
    traced = {event.function: event.exclusive / 1e9 for event in ended if event.phase == "trace"}
    assert pause <= traced["outer"] < 2 * pause + 0.1
    # 0.10 traces the inner function within the outer one, without an event of its own, or with one.
    assert traced["outer"] + traced.get("inner", 0.0) >= 2 * pause
    assert traced.get("inner", pause) < 2 * pause
    assert sum(event.exclusive for event in ended) / 1e9 <= took
    outermost = [(event.start, event.end) for event in ended if event.outermost]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(outermost))
    assert all(0 <= event.exclusive <= event.end - event.start for event in ended)


def test_what_holds_a_function_of_jax_or_comes_in_one_of_its_types_is_the_users_own(observed: Any) -> None:
    class Layer:
        def __init__(self) -> None:
            self.f = jnp.tanh

        def __call__(self, x: Any) -> Any:
            return self.f(x)

    def scaled(by: float, x: Any) -> Any:
        return by * x

    for function in (Layer(), jax.tree_util.Partial(scaled, 2.0)):
        jitted = jax.jit(function)
        for size in (3, 4):
            jitted(np.ones(size, np.float32))
    compiled = observed.of(Compilation)
    assert [event.recompilation for event in compiled] == [None, "shape", None, "shape"]
    assert EAGER not in {event.function for event in compiled}
    assert all("trace" in {phase for phase, _, _ in event.phases} for event in compiled)


class AlarmError(Exception):
    """What a handler of the user's raises."""


@pytest.fixture
def ring() -> Iterator[Callable[..., None]]:
    """Sends this process a signal, whose handler raises."""

    def handler(*_: Any) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, handler)
    yield lambda *_: signal.raise_signal(signal.SIGALRM)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("where", ["call_site", "signature_of"])
def test_what_a_signal_handler_raises_while_a_compile_is_looked_at_reaches_the_user(
    observed: Any, where: str, ring: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes, where, ring)
    with pytest.raises(AlarmError):
        jax.jit(lambda x: x + 1)(np.ones(3, np.float32))
    assert observed.of(ExecutableCreated) == []


def test_what_a_signal_handler_raises_while_an_executable_is_read_reaches_the_user(
    ring: Callable[..., None],
) -> None:
    executable = SimpleNamespace(hlo_modules=ring, get_compiled_memory_stats=ring, local_devices=ring)
    for read in (
        lambda: module_of(executable, 1),
        lambda: memory_of(executable),
        lambda: local_devices_of(executable),
    ):
        with pytest.raises(AlarmError):
            read()


def test_transformations_of_one_function_are_programs_of_their_own(observed: Any) -> None:
    def loss(x: Any) -> Any:
        return (x * x).sum()

    for transformed in (loss, jax.grad(loss), jax.vmap(loss)):
        jax.jit(transformed)(np.ones((3, 3), np.float32))
    assert [event.recompilation for event in observed.of(Compilation)] == [None, None, None]


def test_what_jax_compiles_by_itself_is_eager_and_no_recompile(observed: Any) -> None:
    for size in (11, 12):
        x = jnp.arange(float(size)) * 3
        jnp.linalg.norm(x)
        jax.grad(lambda x: (x**3).sum() + jnp.tanh(x).mean())(x)
        jax.vmap(lambda x: jnp.sort(x * 2))(x[None])
    assert set(compilations(observed)) == {EAGER}
    assert {event.recompilation for event in observed.of(Compilation)} == {None}
    assert observed.of(ExecutableCreated) == []


def test_the_users_functions_keep_their_names_whatever_wraps_them(observed: Any) -> None:
    x = jnp.ones((1, 4))

    @jax.jit
    def add(a: Any) -> Any:  # as a function of JAX's own is called
        return a + 11

    def gradient_of(a: Any) -> Any:
        return (a**2).sum()

    def partially(a: Any, b: int) -> Any:
        return a + b

    def checkpointed(a: Any) -> Any:
        return a * 3

    def mapped(a: Any) -> Any:
        return a * 5

    jnp.add(x, x)
    add(x)
    jnp.add(x[0], x[0])
    add(x[0])
    jax.jit(jax.grad(gradient_of))(x)
    jax.jit(functools.partial(partially, b=2))(x)
    jax.jit(jax.checkpoint(checkpointed))(x)
    jax.jit(jax.vmap(mapped))(x)
    jax.jit(lambda a: a - 7)(x)
    jax.grad(lambda a: add(a).sum())(jnp.ones((2, 2)))
    counted = compilations(observed)
    del counted[EAGER]
    own = {"gradient_of": 1, "partially": 1, "checkpointed": 1, "mapped": 1, "<lambda>": 1}
    assert counted.pop("add") >= 3
    assert counted == own
    causes = [event.recompilation for event in observed.of(Compilation) if event.function == "add"]
    assert causes[:2] == [None, "shape"]


def test_ahead_of_time_compiles_are_seen(observed: Any) -> None:
    @jax.jit
    def early(x: Any) -> Any:
        return x @ x

    lowered = early.lower(jnp.ones((8, 8)))
    assert compilations(observed)["early"] == 0
    compiled = lowered.compile()
    assert compilations(observed)["early"] == 1
    compiled(jnp.ones((8, 8)))
    assert compilations(observed)["early"] == 1
    (made,) = observed.of(ExecutableCreated)
    assert cost_of(made).matrix_flops == 2 * 8**3


def test_a_function_that_raises_while_it_is_traced_leaves_nothing_in_flight(observed: Any) -> None:
    @jax.jit
    def raises(x: Any) -> Any:
        raise ZeroDivisionError("of the user")

    @jax.jit
    def around(x: Any) -> Any:
        return raises(x)

    with StepMark(observed.side.loops, "train", None, None):
        step = observed.side.loops.current.step
        for function in (raises, around):
            with pytest.raises(ZeroDivisionError, match="of the user"):
                function(1.0)
            assert observed.side.loops.current.step is step
    started = Counter((event.function, event.phase) for event in observed.of(CompilePhaseStarted))
    ended = Counter((e.function, e.phase) for e in observed.of(CompilePhaseEnded) if e.outermost)
    assert started == ended
    assert len(observed.of(StepEnded)) == 1
    probe = observed.side.plugins[0][0].plugin
    assert probe._thread.stack == []


def test_sixty_four_threads_compile_at_once_and_each_compile_is_counted_once_with_its_own_executable(
    observed: Any,
) -> None:
    count = 64
    barrier = threading.Barrier(count)
    operands = [jnp.ones((size, size)) for size in range(2, 2 + count)]
    observed.of()
    observed.events.clear()

    def build(number: int) -> Any:
        def function(x: Any) -> Any:
            return x @ x

        function.__name__ = f"product_{number}"
        return jax.jit(function)

    functions = [observed.side.watch(build(number)) for number in range(count)]

    def compile_and_run(number: int) -> None:
        barrier.wait()
        functions[number](operands[number])

    threads = [threading.Thread(target=compile_and_run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {f"product_{number}" for number in range(count)}
    counted = compilations(observed)
    assert {name: counted[name] for name in names} == dict.fromkeys(names, 1)
    made = {event.function: event for event in observed.of(ExecutableCreated)}
    for number in range(count):
        event = made[f"product_{number}"]
        assert cost_of(event).matrix_flops == 2 * (2 + number) ** 3
        assert functions[number]._calls.run == event.executable
    assert len({event.executable for event in made.values()}) == count


def test_listeners_that_somebody_cleared_are_put_back_even_inside_a_trace(observed: Any) -> None:
    probe = observed.side.plugins[0][0].plugin
    mine = Counter[str]()

    @jax.jit
    def clears(x: Any) -> Any:
        jax.monitoring.clear_event_listeners()
        jax.monitoring.register_event_duration_secs_listener(lambda *a, **k: mine.update(["heard"]))
        return x + 1

    with StepMark(observed.side.loops, "train", None, None):
        step = observed.side.loops.current.step
        clears(1.0)
        probe.sample()
        probe.sample()
        assert observed.side.sender.listeners_restored == 1
        jax.jit(lambda x: x * 9)(2.0)
        assert observed.side.loops.current.step is step
    assert compilations(observed)["<lambda>"] == 1
    last = [event for event in observed.of(CompilePhaseEnded) if event.function == "<lambda>"]
    assert all(event.outermost for event in last)
    assert mine["heard"] > 0
    jax.monitoring.clear_event_listeners()
    probe.stop()  # of listeners that are gone: no harm


def test_a_probe_that_fails_is_contained_and_finds_its_way_back(
    observed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, guard) = observed.side.plugins[0]

    def broken(*_: Any) -> Any:
        raise RuntimeError("as in a JAX of the future")

    monkeypatch.setattr(jax_internals, "traced_function", broken)
    assert jax.jit(lambda x: x + 21)(1.0) == 22.0
    monkeypatch.undo()
    assert guard.failures > 0
    with StepMark(observed.side.loops, "train", None, None):
        step = observed.side.loops.current.step

        @jax.jit
        def afterwards(x: Any) -> Any:
            return x + 22

        afterwards(1.0)
        assert observed.side.loops.current.step is step
    assert compilations(observed)["afterwards"] == 1
    phases = [event for event in observed.of(CompilePhaseEnded) if event.function == "afterwards"]
    assert [(event.phase, event.outermost) for event in phases] == [
        ("trace", True),
        ("lower", True),
        ("backend", True),
    ]
    assert "RuntimeError: as in a JAX of the future" in observed.log.pop()
    guard.failures = 0


CACHED = """
import sys, jax, jax.numpy as jnp
sys.path.insert(0, {tests!r})
from conftest import Observed
from jaxobs.model.events import Compilation, CompilePhaseEnded, ExecutableCreated, Measured
jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
observed = Observed()
observed.side.start_probes()

@jax.jit
def kept(x):
    return x @ x

kept(jnp.ones((32, 32)))
(compiled,) = [event for event in observed.of(Compilation) if event.function == "kept"]
(made,) = observed.of(ExecutableCreated)
ended = [event for event in observed.of(CompilePhaseEnded) if event.function == "kept"]
backend = next(event for event in ended if event.phase == "backend")
read = sum(event.exclusive for event in ended if event.phase == "cache_read")
assert backend.exclusive + read <= backend.end - backend.start
assert made.proto
totals = {{}}
for event in observed.of(Measured):
    totals[event.labels[0]] = totals.get(event.labels[0], 0) + event.value
saved = dict(compiled.attributes).get("jax.persistent_cache.seconds_saved")
assert (saved is not None) == (compiled.persistent_cache == "hit")
print(compiled.persistent_cache, read > 0, totals["request"] > 0, totals["hit"] > 0, totals["written"] > 0)
observed.side.stop(0)
"""


def test_the_persistent_cache_is_told_and_its_reading_is_a_phase_of_its_own(tmp_path: Path) -> None:
    here = Path(__file__).parent
    source = CACHED.format(tests=str(here), folder=str(tmp_path))
    path = os.pathsep.join([str(here.parents[1]), str(here.parents[1] / "plugins")])
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said == [["miss", "False", "True", "False", "True"], ["hit", "True", "True", "True", "False"]]


def test_without_a_persistent_cache_there_are_neither_requests_nor_misses(observed: Any) -> None:
    assert not jax.config.jax_compilation_cache_dir
    jax.jit(lambda x: x + 51)(1.0)
    assert {event.persistent_cache for event in observed.of(Compilation)} == {"off"}
    assert {event.value for event in observed.of(Measured) if "persistent_cache" in event.metric} == {0.0}
