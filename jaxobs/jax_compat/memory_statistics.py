"""Memory statistics of each local device, from JAX's allocators, and this process's address space, from the system.

The former need a backend to exist; callers check `backend_exists()` first.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, NamedTuple

NAMES = {
    "in_use": "bytes_in_use",
    "peak": "peak_bytes_in_use",
    "limit": "bytes_limit",
    "pool": "pool_bytes",
    "largest_free": "largest_free_block_bytes",
}
"""Keys of `Device.memory_stats()` by the fields of `MemorySampled`. Not every backend and version has all of them."""


class DeviceStatistics(NamedTuple):
    """The memory statistics of one device; None where the backend has none, as on CPU."""

    device: int
    platform: str
    statistics: dict[str, int] | None


def device_statistics() -> list[DeviceStatistics]:
    """The memory statistics of every local device of the default backend. Raises what the backend raises.

    Amounts below 0 are left out: with them JAX marks what a PJRT plugin has not filled in.
    """
    import jax

    return [
        DeviceStatistics(ordinal, str(device.platform), _plain(device.memory_stats()))
        for ordinal, device in enumerate(jax.local_devices())
    ]


def named_amounts(statistics: dict[str, int] | None) -> dict[str, int | None]:
    """The statistics by the fields of `MemorySampled`; None for those that are missing."""
    known = statistics or {}
    return {field: known.get(key) for field, key in NAMES.items()}


def _plain(statistics: Any) -> dict[str, int] | None:
    if not statistics:
        return None
    return {str(key): value for key, value in statistics.items() if type(value) is int and value >= 0}


def address_space() -> tuple[int, int] | None:
    """Bytes of address space that this process has reserved, and the most that it may (`ulimit -v`).

    None without such a limit, and where the system does not say. A process reserves far more addresses than it uses
    memory, so an allocation may fail at this limit while memory is free.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        # Not by the module `resource`: what the job has not imported may be a module of the user's by that name.
        limits = Path("/proc/self/limits").read_text(encoding="ascii").split("\n")
        limit = next(line for line in limits if line.startswith("Max address space")).split()[3]
        if limit != "unlimited":
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return pages * os.sysconf("SC_PAGE_SIZE"), int(limit)
    return None
