"""The memory of the process, its peak and its limit."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import jaxlib
import psutil
import pytest

from jaxobs.model.events import PROCESS_MEMORY, Event, MemorySampled
from jaxobs_plugins.probes.memory import MemoryProbe, memory_limit, process_memory
from tests.plugins.memory.conftest import devices_in


def test_on_cpu_the_memory_of_the_process_is_told(probe: MemoryProbe, events: list[Event]) -> None:
    probe.sample()
    process = next(event for event in events if isinstance(event, MemorySampled))
    assert process.device == PROCESS_MEMORY
    assert process.in_use == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)
    assert process.peak is not None
    assert process.in_use is not None
    assert process.peak >= process.in_use
    assert [(event.device, event.in_use, event.reason) for event in devices_in(events)] == [
        (0, None, "its arrays lie in the memory of the process")
    ]


def test_the_peak_is_not_that_of_the_process_that_started_this_one() -> None:
    held = bytearray(b"x") * (300 * 2**20)
    program = "from jaxobs_plugins.probes import memory as of; print(of.process_memory().peak)"
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
    before = process_memory()
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), length, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE])
        after = process_memory()
    assert before.files is not None
    assert after.files is not None
    assert after.files - before.files > length / 2


def test_the_limit_is_no_more_than_the_host_has() -> None:
    limit = memory_limit()
    assert limit is not None
    assert 0 < limit <= psutil.virtual_memory().total
    assert process_memory().limit == limit
