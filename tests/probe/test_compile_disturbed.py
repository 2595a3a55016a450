"""Compiles that raise, at once on many threads, or while a signal or somebody else disturbs the listeners."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jaxobs.jax_compat.memory import memory_of
from jaxobs.model.events import (
    CompilePhaseEnded,
    CompilePhaseStarted,
    ExecutableCreated,
    StepEnded,
)
from jaxobs.probe.steps.marks import StepMark
from jaxobs_plugins.probes.compile import causes
from jaxobs_plugins.probes.compile.probe import local_devices_of, module_of
from tests.probe.compiled import compilations


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
    probe = observed.source("compile").plugin
    assert probe._thread.stack == []


def test_listeners_that_somebody_cleared_are_put_back_even_inside_a_trace(observed: Any) -> None:
    probe = observed.source("compile").plugin
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
    guard = observed.source("compile").guard

    def broken(*_: Any) -> Any:
        raise RuntimeError("as in a JAX of the future")

    monkeypatch.setattr("jaxobs_plugins.probes.compile.probe.traced_function", broken)
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
