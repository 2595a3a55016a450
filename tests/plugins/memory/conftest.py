"""The memory probe on real JAX, and devices in place of JAX's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.model.events import PROCESS_MEMORY, Event, LiveArraysCounted, MemorySampled
from jaxobs.testing import FakeJob
from jaxobs_plugins.probes.memory import MemoryProbe

GIB = 2**30


class Device:
    """A device whose allocator tells what the test wants."""

    platform = "cuda"

    def __init__(self, told: Any) -> None:
        self.told = told
        self.asked = 0

    def memory_stats(self) -> Any:
        self.asked += 1
        if isinstance(self.told, BaseException):
            raise self.told
        return self.told


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def probe(events: list[Event]) -> Iterator[MemoryProbe]:
    jnp.ones(3).block_until_ready()
    made = MemoryProbe()
    job = FakeJob()
    job.events = events
    made.start(job)
    yield made
    made.stop()


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """In place of JAX's local devices."""
    made: list[Device] = []
    monkeypatch.setattr(jax, "local_devices", lambda: made)
    return made


def devices_in(events: list[Event]) -> list[MemorySampled]:
    return [event for event in events if isinstance(event, MemorySampled) and event.device != PROCESS_MEMORY]


def censuses(events: list[Event]) -> list[LiveArraysCounted]:
    return [event for event in events if isinstance(event, LiveArraysCounted)]
