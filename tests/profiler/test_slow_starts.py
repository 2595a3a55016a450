"""Profilers that take long to start, as CUPTI does: what was recorded is laid over the steps in which it ran."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.derive.profiler_windows.parts import LoopPart
from jaxobs.derive.profiler_windows.windows import WindowToRead
from jaxobs.jax_compat.runtime import profiler_module
from jaxobs.model.clock import now
from jaxobs.model.events import ProfileWindow
from jaxobs.trace import read_trace
from tests.derive.made_up import PEAKS
from tests.profiler.jax_versions import sees_a_cpu

STARTING = 0.3


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Sessions record from the beginning of their start, whose clock they keep, and are made a while later."""
    module, told = profiler_module(), threading.Event()
    original: type[Any] = module.ProfilerSession

    class Slow(original):  # type: ignore[misc]  # its base is known at run time only
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            time.sleep(STARTING)
            told.set()

    monkeypatch.setattr(module, "ProfilerSession", Slow)
    return told


def share_between(window: ProfileWindow, begun: int, ended: int) -> float:
    """The share of the time in which the device was busy in a window, as its trace is read for loops, between the two."""
    parts = {
        name: LoopPart((each,), (), 1.0, 1.0, whole=True)
        for name, each in (("between", (begun, ended)), ("all", (window.start, window.end)))
    }
    told = WindowToRead(window, parts, PEAKS, {})
    (device,) = read_trace(window.xspace or b"", stretches=told.stretches).devices
    return device.stretches["between"].busy_seconds / device.stretches["all"].busy_seconds


def prepared() -> Callable[[], tuple[int, int]]:
    """What keeps the device busy by a single operation, for less than STARTING, and says when."""
    x = jnp.ones((1500, 1500))
    step = jax.jit(lambda x: jnp.tanh(x @ x) * 1e-3).lower(x).compile()

    def work() -> tuple[int, int]:
        begun = now()
        step(x).block_until_ready()
        return begun, now()

    return work


@sees_a_cpu
def test_of_a_window_of_ours(started: threading.Event, observe: Any) -> None:
    observed, work = observe(), prepared()
    work()
    observed.ask(0.02)  # how many events a second there are is learnt
    started.clear()
    request = observed.probe.profile(2.0, False)
    assert started.wait(20)
    begun, ended = work()
    assert request.result(timeout=30).outcome in ("read", "cut")
    *_, window = observed.windows()
    assert window.lead >= STARTING * 1e9
    assert share_between(window, begun, ended) > 0.9


@sees_a_cpu
def test_of_a_session_of_the_users(started: threading.Event, observe: Any, tmp_path: Path) -> None:
    observed, work = observe(), prepared()
    work()
    with jax.profiler.trace(tmp_path):
        begun, ended = work()
    (window,) = observed.wait_for(1)
    assert window.start <= begun < ended <= window.end
    assert window.lead >= STARTING * 1e9
    assert share_between(window, begun, ended) > 0.9
