from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

import jaxobs

if TYPE_CHECKING:
    import pytest

MOST_SECONDS = 20e-6


def test_values_are_what_the_agent_sent_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    with jaxobs.instrument(interval=0.1) as obs:
        step, x = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x))), jnp.ones((64, 64))
        assert obs.values() == {}, "nobody had asked"
        deadline = time.monotonic() + 60
        for _ in obs.steps(iter(int, 1)):
            x = step(x).block_until_ready()
            values = obs.values()
            if "jaxobs/steps_per_second" in values or time.monotonic() > deadline:
                break
        assert values["jaxobs/steps_per_second"] > 0
        assert values["jaxobs/compilations"] >= 1
        assert "jaxobs/tokens_per_second" not in values, "nobody said how many tokens there are"
        took = []
        for _ in range(500):
            begin = time.perf_counter()
            obs.values()
            took.append(time.perf_counter() - begin)
        assert sorted(took)[len(took) // 2] < MOST_SECONDS
        values.clear()
        assert obs.values(), "what a caller does with its copy is its own business"
    assert obs.values(), "the last ones stay"


def test_a_new_agent_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    with jaxobs.instrument(interval=0.1) as obs:
        jax.jit(lambda x: x + 1)(1.0)

        def arrives_anew() -> None:
            obs._side.sender.requests.newest_values = {}
            deadline = time.monotonic() + 60
            while not obs.values():
                assert time.monotonic() < deadline
                time.sleep(0.05)

        arrives_anew()
        pid = obs.snapshot(30)["agent"]["pid"]
        os.kill(pid, signal.SIGKILL)
        while obs.snapshot(5)["agent"] is None or obs.snapshot(5)["agent"]["pid"] == pid:
            time.sleep(0.05)
        arrives_anew()


def test_the_first_call_is_answered_at_once_and_not_after_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    with jaxobs.instrument(interval=60) as obs:
        jax.jit(lambda x: x + 1)(1.0)
        deadline = time.monotonic() + 45
        while not obs.values():
            assert time.monotonic() < deadline
            time.sleep(0.01)
