"""What JAX's allocators tell of each local device. Needs a backend to exist; callers ask `backend_exists()` first."""

from __future__ import annotations

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
    """Of every local device of the default backend. Raises what the backend raises.

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


def _plain(told: Any) -> dict[str, int] | None:
    if not told:
        return None
    return {str(key): value for key, value in told.items() if type(value) is int and value >= 0}
