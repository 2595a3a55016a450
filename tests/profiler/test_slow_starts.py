"""Profilers that take long to start, as CUPTI does: what was recorded is laid over the steps in which it ran."""

from __future__ import annotations

import threading
import time
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


def busy_share(window: ProfileWindow, begun: int, ended: int) -> float:
    """The share of this part of a window in which the device was busy, as its trace is read for a loop."""
    part = LoopPart(((begun, ended),), (), 1.0, 1.0, whole=True)
    told = WindowToRead(window, {"train": part}, PEAKS, {})
    (device,) = read_trace(window.xspace or b"", stretches=told.stretches).devices
    stretch = device.stretches["train"]
    return stretch.busy_seconds / stretch.seconds


def work() -> tuple[int, int]:
    """Keep the device busy, and say when."""
    step = jax.jit(lambda x: jnp.tanh(x @ x) * 1e-3)
    x = jnp.ones((1500, 1500))
    step(x).block_until_ready()
    begun = now()
    step(x).block_until_ready()
    return begun, now()


@sees_a_cpu
def test_of_a_window_of_ours(started: threading.Event, observe: Any) -> None:
    observed = observe()
    work()
    observed.ask(0.02)  # how many events a second there are is learnt
    started.clear()
    request = observed.probe.profile(2.0, False)
    assert started.wait(20)
    begun, ended = work()
    assert request.result(timeout=30).outcome in ("read", "cut")
    *_, window = observed.windows()
    assert window.lead >= STARTING * 1e9
    assert busy_share(window, begun, ended) > 0.6


@sees_a_cpu
def test_of_a_session_of_the_users(started: threading.Event, observe: Any, tmp_path: Path) -> None:
    observed = observe()
    work()
    with jax.profiler.trace(tmp_path):
        begun, ended = work()
    (window,) = observed.wait_for(1)
    assert window.start <= begun < ended <= window.end
    assert window.lead >= STARTING * 1e9
    assert busy_share(window, begun, ended) > 0.6
