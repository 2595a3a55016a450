"""The census of live arrays: when they are listed, and when not."""

from __future__ import annotations

import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import Event, LiveArraysCounted
from jaxobs_plugins.probes import memory as array_census
from jaxobs_plugins.probes.memory import MemoryProbe
from tests.plugins.memory.conftest import censuses


def test_a_census_finds_the_job_s_arrays(probe: MemoryProbe, events: list[Event]) -> None:
    kept = [jnp.zeros((77, 11)) for _ in range(4)]
    probe.sample()
    while not censuses(events):
        probe.sample()
    told = censuses(events)[0]
    (group,) = [group for group in told.groups if group[0] == "(77, 11)"]
    assert group[1:5] == ("float32", "one device", 4, 4 * 77 * 11 * 4)
    assert group[5].startswith("memory/test_live_arrays.py:")
    assert told.lock_seconds < 1.0  # seconds, and no other unit
    del kept


def test_more_arrays_than_can_be_listed_in_time_are_not_listed_while_steps_run(
    probe: MemoryProbe, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_census, "arrays_alive", lambda: 100_000)
    monkeypatch.setattr(jax, "live_arrays", lambda: pytest.fail("this takes 10 ms of the interpreter lock"))
    for _ in range(3):
        probe.sample()
    (told,) = censuses(events)  # said once
    assert told.arrays is None
    assert "some 100000" in told.reason
    assert "compile or a checkpoint" in told.reason


def counted_at_last(probe: MemoryProbe, events: list[Event]) -> LiveArraysCounted:
    deadline = time.monotonic() + 30
    while not any(told.arrays for told in censuses(events)) and time.monotonic() < deadline:
        probe.sample()
    return censuses(events)[-1]


def test_many_arrays_are_listed_during_a_checkpoint(probe: MemoryProbe, events: list[Event]) -> None:
    kept = [jnp.zeros((91, 3)) for _ in range(8_000)]
    probe.sample()
    assert [told.arrays for told in censuses(events)] == [None]
    assert probe._job is not None
    probe._job.in_checkpoint = True  # type: ignore[attr-defined]  # the double's
    told = counted_at_last(probe, events)
    (group,) = [group for group in told.groups if group[0] == "(91, 3)"]
    assert group[1:5] == ("float32", "one device", 8_000, 8_000 * 91 * 3 * 4)
    assert group[5].startswith("memory/test_live_arrays.py:")
    assert len(kept) == 8_000


def test_many_arrays_are_listed_during_a_long_compile_on_the_main_thread(
    probe: MemoryProbe, events: list[Event]
) -> None:
    kept = [jnp.zeros((93, 3)) for _ in range(8_000)]
    ended = threading.Event()

    def sample() -> None:
        while not ended.is_set():
            probe.sample()
            time.sleep(0.05)

    def deep(x: Any) -> Any:
        for power in range(100):  # compiles for a second or so
            x = jnp.sin(x) @ jnp.cos(x) / (power + 1)
        return x

    beside = threading.Thread(target=sample)
    beside.start()
    jax.jit(deep).lower(jnp.ones((8, 8))).compile()
    ended.set()
    beside.join()
    found = [told for told in censuses(events) if told.arrays]
    assert found
    assert [group[3] for group in found[-1].groups if group[0] == "(93, 3)"] == [8_000]
    assert len(kept) == 8_000


def test_a_middling_number_of_arrays_is_listed_without_their_lines(
    probe: MemoryProbe, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = first = jnp.ones(5)
    monkeypatch.setattr(array_census, "arrays_alive", lambda: 4_000)
    probe.sample()
    (told,) = censuses(events)
    assert told.arrays
    assert told.lines == ()
    assert "line" in told.lines_reason
    del kept, first
