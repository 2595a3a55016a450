"""Looking for the cause of a recompile changes nothing for the user, and tells nothing that it did not see."""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxobs.jax_compat.compiling import call_being_traced, lowering
from jaxobs.jax_compat.runtime import unregister_listeners
from jaxobs.model import events

if TYPE_CHECKING:
    import pytest

CURRENT = tuple(int(part) for part in jax.__version__.split(".")[:2]) >= (0, 10)


class Hostile:
    """Nothing but JAX itself may ask this anything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _note(self, what: str) -> None:
        frame = sys._getframe(2)
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(("jaxobs.", "jaxobs_plugins.")):
                self.asked.append(what)
                return
            frame = frame.f_back  # type: ignore[assignment]  # it is not the last

    def __repr__(self) -> str:
        self._note("repr")
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        self._note("eq")
        return self is other

    def __hash__(self) -> int:
        self._note("hash")
        return 7

    def __lt__(self, other: object) -> bool:
        self._note("lt")
        return False


class Metaclass(type):
    def __eq__(cls, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(cls) -> int:
        return 7


class OddlyTyped(metaclass=Metaclass):
    pass


def test_nothing_of_the_users_is_printed_compared_or_hashed(observed: Any) -> None:
    key, static, auxiliary = Hostile(), Hostile(), Hostile()

    class Node:
        def __init__(self, leaf: Any) -> None:
            self.leaf = leaf

    jax.tree_util.register_pytree_node(
        Node, lambda node: ((node.leaf,), auxiliary), lambda _, children: Node(*children)
    )

    @jax.jit
    def step(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf * 2, tree)

    plain = jax.jit(lambda x, config, kind: x, static_argnums=(1, 2))
    for size in (3, 4):
        step(Node(jnp.ones(size)))
        plain(jnp.ones(size), static, OddlyTyped())
    causes = [event.recompilation for event in observed.of(events.Compilation) if event.function != "(eager)"]
    assert causes == [None, None, "shape", "shape" if CURRENT else causes[-1]]
    assert key.asked == static.asked == auxiliary.asked == []


def test_the_users_objects_and_functions_are_let_go_of(observed: Any) -> None:
    class Config:
        pass

    def build() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        config = Config()

        def step(x: Any, config: Any) -> Any:
            return x * 2

        jax.jit(step, static_argnums=1)(jnp.ones(3), config)
        return weakref.ref(step), weakref.ref(config)

    references = build()
    jax.clear_caches()
    import gc

    gc.collect()
    assert [reference() for reference in references] == [None, None]


def loggers() -> dict[str, Any]:
    """Every logger of JAX as a user's code sees it."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("jax", "jaxlib")]
    every = [logging.root, *(logging.getLogger(name) for name in sorted(names))]
    return {
        logger.name: (logger.level, logger.disabled, logger.propagate, [*logger.handlers], [*logger.filters])
        for logger in every
    }


def test_logging_settings_traces_and_compiles_are_as_without(
    observed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    traced: list[Any] = []
    phases: list[str] = []

    def count(event: str, duration_secs: float, **labels: Any) -> None:
        phases.extend([event] if "step" in str(labels.get("fun_name")) else [])

    jax.monitoring.register_event_duration_secs_listener(count)

    def run() -> None:
        @jax.jit
        def step(x: Any) -> Any:
            traced.append(x.shape)
            return x + 1

        for size in (3, 4, 4):
            step(jnp.ones(size))

    observed.side.stop(0.0)
    before = loggers(), dict(jax.config.values), len(traced)
    run()
    without, compiled = len(traced), len(phases)
    observed.side.start_probes()
    run()
    assert (len(traced), len(phases)) == (2 * without, 2 * compiled)
    assert compiled >= 2 * without
    unregister_listeners(None, count, None)
    assert (loggers(), dict(jax.config.values)) == before[:2]
    assert caplog.records == []


def test_stop_leaves_nothing_behind(observed: Any) -> None:
    monitoring = sys.modules["jax._src.monitoring"]

    def ours() -> list[Any]:
        registered = [
            *monitoring.get_event_listeners(), *monitoring.get_event_duration_listeners(),
            *monitoring.get_scalar_listeners(),
        ]  # fmt: skip
        return [
            listener for listener in registered if "jaxobs_plugins" in getattr(listener, "__module__", "")
        ]

    assert len(ours()) == 3
    probe = observed.source("compile").plugin

    @jax.jit
    def stops(x: Any) -> Any:
        probe.stop()
        return x + 1

    stops(jnp.ones(3))
    assert ours() == []
    assert probe._thread.stack == []
    assert probe._causes._history._functions == {}
    probe.stop()


def test_threads_that_compile_at_once_get_each_their_own_cause(observed: Any) -> None:
    count = 32
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        def function(**arguments: Any) -> Any:
            return arguments

        function.__name__ = function.__qualname__ = f"function_{number}"
        function.__code__ = function.__code__.replace(co_qualname=f"function_{number}")
        jitted = jax.jit(function)
        barrier.wait()
        for size in (2, 3 + number):
            jitted(**{f"argument_{number}": np.ones(size, np.float32)})

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {}
    for event in observed.of(events.Compilation):
        if event.recompilation is not None:
            found[event.function] = (event.recompilation, dict(event.attributes))
    assert len(found) == count
    for number in range(count):
        cause, attributes = found[f"function_{number}"]
        assert cause == "shape"
        assert attributes[events.MISS_ARGUMENT] == f"arguments['argument_{number}']"
        assert (attributes[events.MISS_OLD], attributes[events.MISS_NEW]) == (
            "float32[2]", f"float32[{3 + number}]",
        )  # fmt: skip


def test_what_cannot_be_read_is_other_with_its_reason(observed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise AttributeError("as in a JAX of the future")

    from jaxobs_plugins.probes.compile import causes

    monkeypatch.setattr(causes, "call_being_traced", broken)
    monkeypatch.setattr(causes, "lowering", broken)

    @jax.jit
    def step(x: Any) -> Any:
        return x + 41

    step(jnp.ones(3))
    step(jnp.ones(4))
    compiled = [event for event in observed.of(events.Compilation) if event.function == "step"]
    assert [event.recompilation for event in compiled] == [None, "other"]
    assert dict(compiled[1].attributes)[events.MISS_REASON] == causes.NOT_SEEN


def test_of_very_many_arguments_nothing_is_guessed(observed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jaxobs_plugins.probes.compile.causes.ARRAYS_COMPARED", 8)

    @jax.jit
    def step(leaves: Any) -> Any:
        return sum(leaf.sum() for leaf in leaves)

    step([jnp.ones(3)] * 20)
    step([jnp.ones(3)] * 19 + [jnp.ones(4)])
    compiled = [event for event in observed.of(events.Compilation) if event.function == "step"]
    assert [event.recompilation for event in compiled] == [None, "other"]
    assert "more arrays than are compared" in dict(compiled[1].attributes)[events.MISS_REASON]


def test_frames_that_are_not_jaxs_tell_nothing() -> None:
    frame = sys._getframe()
    assert call_being_traced(frame) is None
    assert lowering(frame) is None
    assert call_being_traced(None) is None
