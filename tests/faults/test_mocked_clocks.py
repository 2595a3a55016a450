"""Tests of the job's that put functions of their own in the place of clocks and of `open`: neither side notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MOCKS = """
import builtins
from unittest import mock
import jax, jaxobs
with mock.patch.object(time, "monotonic", lambda: 0.0), mock.patch.object(time, "monotonic_ns", lambda: 0):
    obs = jaxobs.instrument(interval=0.05, sample_interval=0.05)
step = obs.watch(jax.jit(lambda x: x + 1))
def train(turns):
    for _ in obs.steps(range(turns)):
        step(1.0)
        wait(0.005)
wait = time.sleep
train(20)
assert obs.snapshot(60)["loops"]["train"]["steps"] == 20

ours = []
def replaced(name):
    def refuse(*arguments, **named):
        frame = sys._getframe(1)
        while frame is not None:
            package = frame.f_globals.get("__name__", "").partition(".")[0]
            if package in ("jaxobs", "jaxobs_plugins"):
                ours.append(name)
                raise StopIteration  # as of a mock whose values are used up
            frame = frame.f_back if package not in ("jax", "jaxlib") else None
        return real(*arguments, **named)
    owner, _, attribute = name.rpartition(".")
    owner = {"time": time, "builtins": builtins, "os": os}[owner]
    real = getattr(owner, attribute)
    return mock.patch.object(owner, attribute, refuse)

CLOCKS = ["monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns", "sleep", "thread_time"]
with mock.patch.object(time, "sleep", lambda seconds: None):  # as tests do that have no time
    train(20)
patches = [replaced(f"time.{clock}") for clock in CLOCKS] + [replaced("builtins.open"), replaced("os.open")]
for patch in patches:
    patch.start()
train(100)
step(jax.numpy.ones(3))  # compiles
obs.record(loss=1.0)
wait(1.0)  # turns of all threads
for patch in patches:
    patch.stop()
print("ours asked:", sorted(set(ours)))

frozen = time.monotonic()
with mock.patch.object(time, "monotonic", lambda: frozen + 1e6), mock.patch.object(time, "time", lambda: 0.0):
    train(20)
    wait(0.3)
train(20)
found = obs.snapshot(60)
print(found["loops"]["train"]["steps"], found["loops"]["train"]["recorded"])
print([name for name, source in found["sources"].items() if not source["up"] and source["failures"]])
print(0 < found["loops"]["train"]["wall_seconds"] < 60, found["functions"]["<lambda>"]["compilations"])
began = time.monotonic()
obs.shutdown()
print(time.monotonic() - began < 5)
"""


@pytest.mark.fault(48)
def test_neither_the_tests_of_the_job_nor_jaxobs_notice(run: Callable[..., Any]) -> None:
    outcome = run(MOCKS, observed=False)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout.splitlines() == ["ours asked: []", "180 {'loss': 1.0}", "[]", "True 2", "True"]
