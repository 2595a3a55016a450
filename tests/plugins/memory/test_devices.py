"""The memory probe: what it tells of real arrays, and how it fares with a backend that fails."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from jaxobs.model.events import PROCESS_MEMORY, Event, MemorySampled
from jaxobs_plugins.probes import memory as memory_probe
from jaxobs_plugins.probes.memory import PAUSE_SECONDS, MemoryProbe
from tests.plugins.memory.conftest import GIB, Device, censuses, devices_in


def test_statistics_are_told_as_the_allocator_tells_them(
    probe: MemoryProbe, events: list[Event], devices: list[Device]
) -> None:
    devices += [
        Device(
            {
                "bytes_in_use": 5 * GIB, "peak_bytes_in_use": 6 * GIB, "bytes_limit": 10 * GIB, "num_allocs": 3,
                "pool_bytes": 8 * GIB, "largest_free_block_bytes": GIB,
            }
        ),
        Device({"bytes_in_use": 7, "bytes_limit": -1}),
    ]  # fmt: skip
    probe.sample()
    first, second = devices_in(events)
    assert first[:6] == (0, 5 * GIB, 6 * GIB, 10 * GIB, 8 * GIB, GIB)
    assert second[:6] == (1, 7, None, None, None, None)  # what is not filled in is not 0 and not −1


@pytest.mark.parametrize("told", [None, {}, {"num_allocs": 4}])
def test_a_device_that_tells_nothing_has_no_figures(
    told: Any, probe: MemoryProbe, events: list[Event], devices: list[Device]
) -> None:
    devices.append(Device(told))
    probe.sample()
    assert [(event.in_use, event.reason) for event in devices_in(events)] == [
        (None, "the backend tells no memory statistics")
    ]


def test_a_backend_that_fails_is_let_alone_for_a_while(
    probe: MemoryProbe, events: list[Event], devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(memory_probe, "monotonic", lambda: clock.now)
    monkeypatch.setattr(probe._census, "turn", lambda: None)  # only the devices are asked here
    device = Device({"bytes_in_use": 5})
    devices.append(device)
    probe.sample()
    device.told = RuntimeError("the driver is gone")
    asked = []
    for _ in range(80):
        before = device.asked
        probe.sample()
        asked.append(device.asked - before)
        clock.now += 1.0
    assert [second for second, times in enumerate(asked) if times] == [0, 30, 60]
    assert PAUSE_SECONDS == 30.0
    told = devices_in(events)
    assert told[0].in_use == 5
    assert told[-1].in_use is None
    assert "the driver is gone" in told[-1].reason
    device.told = {"bytes_in_use": 6}
    clock.now += 100
    probe.sample()
    assert devices_in(events)[-1].in_use == 6


def test_nothing_of_jax_is_called_while_a_backend_is_let_alone(
    probe: MemoryProbe, events: list[Event], devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.append(Device(RuntimeError("gone")))
    probe.sample()
    assert censuses(events)[-1].reason.startswith("the backend failed")
    monkeypatch.setattr(jax, "local_devices", lambda: pytest.fail("a call of JAX's"))
    monkeypatch.setattr(jax, "live_arrays", lambda: pytest.fail("a call of JAX's"))
    probe.sample()
    assert isinstance(events[-1], MemorySampled)
    assert events[-1].device == PROCESS_MEMORY


def test_arrays_that_cannot_be_counted_cost_no_device_its_figures(
    probe: MemoryProbe, events: list[Event], devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.append(Device({"bytes_in_use": 5}))
    calls = []

    def live_arrays() -> Any:
        calls.append(1)
        raise TypeError("an array of a kind of its own")

    monkeypatch.setattr(jax, "live_arrays", live_arrays)
    for _ in range(3):
        probe.sample()
    assert [event.in_use for event in devices_in(events)] == [5, 5, 5]
    assert [(told.arrays, "a kind of its own" in told.reason) for told in censuses(events)] == [(None, True)]
    assert len(calls) == 1  # the next when its time comes


def test_after_stop_nothing_is_sampled(probe: MemoryProbe, events: list[Event]) -> None:
    probe.stop()
    probe.sample()
    assert events == []


def test_it_makes_no_backend() -> None:
    program = """
from types import SimpleNamespace
import jax
from jaxobs_plugins.probes.memory import MemoryProbe
events = []
probe = MemoryProbe()
probe.start(SimpleNamespace(emit=events.append, guard=lambda hook: hook))
probe.sample()
from jax._src import xla_bridge
print(xla_bridge.backends_are_initialized(), len(events))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.returncode) == ("False 0", 0), done.stderr
