"""The census of live arrays: when they are listed, and when not."""

from __future__ import annotations

import sys
from types import ModuleType

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import Event
from jaxobs_plugins.probes import memory as array_census
from jaxobs_plugins.probes.memory import MemoryProbe
from tests.plugins.memory.conftest import censuses


def test_a_census_finds_the_job_s_arrays(probe: MemoryProbe, events: list[Event]) -> None:
    kept = [jnp.zeros((77, 11)) for _ in range(4)]
    probe.sample()
    (told,) = censuses(events)
    (group,) = [group for group in told.groups if group[0] == "(77, 11)"]
    assert group[1:5] == ("float32", "one device", 4, 4 * 77 * 11 * 4)
    assert group[5].startswith("memory/test_live_arrays.py:")
    assert told.lock_seconds < 1.0  # seconds, and no other unit
    del kept


def test_more_arrays_than_can_be_listed_in_time_are_not_listed(
    probe: MemoryProbe, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_census, "arrays_alive", lambda: 100_000)
    monkeypatch.setattr(jax, "live_arrays", lambda: pytest.fail("this takes 10 ms of the interpreter lock"))
    for _ in range(3):
        probe.sample()
    (told,) = censuses(events)  # said once
    assert told.arrays is None
    assert "about 100000 arrays" in told.reason


def test_where_the_number_of_arrays_is_not_known_they_are_not_listed(
    probe: MemoryProbe, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax._src.array", ModuleType("of a JAX that has another class"))
    for _ in range(3):
        probe.sample()
    (told,) = censuses(events)  # said once
    assert (told.arrays, told.reason) == (None, array_census.UNKNOWN_NUMBER)
