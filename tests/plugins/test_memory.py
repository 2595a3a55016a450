"""The memory probe: what it tells of real arrays, and how it fares with a backend that fails."""

from __future__ import annotations

import mmap
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import psutil
import pytest

from jaxobs.model.events import PROCESS_MEMORY, Event, LiveArraysCounted, Measured, MemorySampled
from jaxobs.testing import FakeJob
from jaxobs_plugins.probes.memory import array_census
from jaxobs_plugins.probes.memory import probe as memory_probe
from jaxobs_plugins.probes.memory.array_census import ArrayCensus
from jaxobs_plugins.probes.memory.probe import FIRST_PAUSE_SECONDS, MemoryProbe
from jaxobs_plugins.probes.memory.process_memory import ProcessMemory, memory_limit

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


def test_on_cpu_the_memory_of_the_process_is_told(probe: MemoryProbe, events: list[Event]) -> None:
    probe.sample()
    process = next(event for event in events if isinstance(event, MemorySampled))
    assert process.device == PROCESS_MEMORY
    assert process.in_use == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)
    assert process.peak is not None
    assert process.peak >= process.in_use
    assert [(event.device, event.in_use, event.reason) for event in devices_in(events)] == [
        (0, None, "its arrays lie in the memory of the process")
    ]
    probe.sample()
    assert len(devices_in(events)) == 1  # said once


def test_the_peak_is_not_that_of_the_process_that_started_this_one() -> None:
    held = bytearray(b"x") * (300 * 2**20)
    program = (
        "from jaxobs_plugins.probes.memory import process_memory as of; print(of.ProcessMemory().read().peak)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert len(held) == 300 * 2**20
    assert done.returncode == 0, done.stderr
    assert 2**20 < int(done.stdout) < 200 * 2**20


def test_pages_of_mapped_files_are_told_apart() -> None:
    # A file on a disk: those of a temporary directory may lie in memory themselves.
    file = max(Path(jaxlib.__file__).parent.rglob("*.so"), key=lambda found: found.stat().st_size)
    length = min(file.stat().st_size, 32 * 2**20)
    process = ProcessMemory()
    before = process.read()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), length, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE])
        after = process.read()
    assert before.files is not None
    assert after.files is not None
    assert after.files - before.files > length / 2


def test_the_limit_is_no_more_than_the_host_has() -> None:
    limit = memory_limit()
    assert limit is not None
    assert 0 < limit <= psutil.virtual_memory().total
    assert ProcessMemory().read().limit == limit


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell how many addresses are taken")
def test_the_limit_of_addresses_is_told_where_there_is_one(probe: MemoryProbe, events: list[Event]) -> None:
    def told() -> dict[str, float]:
        events.clear()
        probe.sample()
        return {event.metric: event.value for event in events if isinstance(event, Measured)}

    before = resource.getrlimit(resource.RLIMIT_AS)
    assert before[0] == resource.RLIM_INFINITY
    assert told() == {}
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 45, before[1]))
        known = told()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert known.pop("jaxobs_process_address_space_limit_bytes") == 1 << 45
    (taken,) = known.values()
    in_use = ProcessMemory().read().in_use
    assert in_use is not None
    assert in_use < taken < 1 << 45


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


def test_a_backend_that_fails_is_let_alone_ever_longer(
    probe: MemoryProbe, events: list[Event], devices: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(memory_probe, "monotonic", lambda: clock.now)
    listed = []
    monkeypatch.setattr(
        array_census, "list_arrays", lambda **_: listed.append(1) or pytest.fail("a call of JAX's")
    )
    device = Device({"bytes_in_use": 5})
    devices.append(device)
    probe._census = ArrayCensus()
    probe._census._next = time.monotonic() + 3600  # only the devices are asked here
    probe.sample()
    device.told = RuntimeError("the driver is gone")
    asked = []
    for _ in range(60):
        before = device.asked
        probe.sample()
        asked.append(device.asked - before)
        clock.now += 1.0
    assert [second for second, times in enumerate(asked) if times] == [
        0,
        2,
        6,
        14,
        30,
    ]  # pauses of 2, 4, 8, 16, …
    assert FIRST_PAUSE_SECONDS == 2.0
    told = devices_in(events)
    assert told[0].in_use == 5
    assert told[-1].in_use is None
    assert "the driver is gone" in told[-1].reason
    device.told = {"bytes_in_use": 6}
    clock.now += 100
    probe.sample()
    assert devices_in(events)[-1].in_use == 6
    assert listed == []


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


def test_a_census_finds_the_job_s_arrays(probe: MemoryProbe, events: list[Event]) -> None:
    kept = [jnp.zeros((77, 11)) for _ in range(4)]
    probe.sample()
    while not censuses(events):
        probe.sample()
    told = censuses(events)[0]
    (group,) = [group for group in told.groups if group[0] == "(77, 11)"]
    assert group[1:5] == ("float32", "one device", 4, 4 * 77 * 11 * 4)
    assert group[5].startswith("plugins/test_memory.py:")
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
    assert group[5].startswith("plugins/test_memory.py:")
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
        for power in range(600):  # compiles for about a second
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
