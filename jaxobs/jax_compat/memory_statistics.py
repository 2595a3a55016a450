"""What JAX's allocators tell of each local device, and the system of the addresses of this process.

The former needs a backend to exist; callers ask `backend_exists()` first.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NamedTuple

NAMES = {
    "in_use": "bytes_in_use",
    "peak": "peak_bytes_in_use",
    "limit": "bytes_limit",
    "pool": "pool_bytes",
    "largest_free": "largest_free_block_bytes",
}
"""Keys of `Device.memory_stats()` by the fields of `MemorySampled`. Backends and versions have not all of them."""


class DeviceStatistics(NamedTuple):
    """`statistics` is None where the backend tells none, as on CPU."""

    device: int
    platform: str
    statistics: dict[str, int] | None


def device_statistics() -> list[DeviceStatistics]:
    """The memory statistics of every local device of the default backend. Raises what the backend raises.

    Amounts below 0 are left out: JAX shows so what a plugin has not filled in.
    """
    import jax

    return [
        DeviceStatistics(ordinal, str(device.platform), _plain(device.memory_stats()))
        for ordinal, device in enumerate(jax.local_devices())
    ]


def named_amounts(statistics: dict[str, int] | None) -> dict[str, int | None]:
    """By the fields of `MemorySampled`; None for what is not there."""
    known = statistics or {}
    return {field: known.get(key) for field, key in NAMES.items()}


def _plain(statistics: Any) -> dict[str, int] | None:
    if not statistics:
        return None
    return {str(key): value for key, value in statistics.items() if type(value) is int and value >= 0}


def address_space() -> tuple[int, int] | None:
    """Bytes of addresses that this process has taken, and the most that it may: the limit that `ulimit -v` sets.

    None without such a limit, and where the system does not tell. It bounds addresses, of which a process takes far
    more than it uses memory, so that an allocation may fail while memory is there.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            return pages * resource.getpagesize(), limit
    return None
