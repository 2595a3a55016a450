"""Probe `compile`: each compile once, with its own executable, its own time, and the name of the user's function."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp

from jaxobs.cost_model import module_cost
from jaxobs.model.events import (
    Compilation,
    CompilePhaseEnded,
    ExecutableCreated,
)
from tests.probe.compiled import compilations


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
    pause = 0.3  # more than the time between the phases

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
    assert pause <= traced["outer"]
    # 0.10 traces the inner function within the outer one, without an event of its own, or with one.
    assert traced["outer"] + traced.get("inner", 0.0) >= 2 * pause
    assert sum(event.exclusive for event in ended) / 1e9 <= took
    outermost = [(event.start, event.end) for event in ended if event.outermost]
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(outermost))
    assert all(0 <= event.exclusive <= event.end - event.start for event in ended)


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

    functions = [observed.side.watching.watch(build(number)) for number in range(count)]

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
        assert functions[number]._jaxobs_calls.run == event.executable
    assert len({event.executable for event in made.values()}) == count
