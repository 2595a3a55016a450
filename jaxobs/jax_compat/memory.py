"""Memory: the statistics of each local device, this process's address space, and what out-of-memory errors say.

The statistics need a backend to exist; callers check `backend_exists()` first.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
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
    """The memory statistics of one device; None if the backend has none, as on CPU."""

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


WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "Ran out of memory")
"""One of these is in every such message of XLA's: on CPU up to JAX 0.8 it begins with `INTERNAL`, later and on GPU and
TPU with `RESOURCE_EXHAUSTED`."""

ALLOCATION = re.compile(
    r"(?:allocat\w*|request for)\s+([\d.]+)\s?(bytes|[KMGT](?:iB)?\b)?(?:\s*\((\d+)B?\))?",
    re.IGNORECASE | re.ASCII,
)
"""`allocating 16777216 bytes` (CPU), `trying to allocate 8.00GiB`, `request for 32.00MiB (33554432B)`, and a TPU's
`Attempting to allocate 4.39G.`"""

POWERS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

ALIGNMENT = 4_096
ROUNDING = 0.005
"""Most bytes, and largest share, by which an allocation may exceed what it is for: alignment to a page, and rounding
where the message gives two decimals. Of a small allocation no more than an eighth counts as alignment."""


def speaks_of_memory(message: str) -> bool:
    """Whether a message of JAX's runtime says that memory ran out."""
    return any(word in message for word in WORDS)


def requested_bytes(message: str) -> int | None:
    """The bytes of the allocation that failed; None if the message does not say."""
    found = ALLOCATION.search(message)
    if found is None:
        return None
    amount, unit, exact = found.groups()
    if exact:
        return int(exact)
    try:
        return round(float(amount) * POWERS.get((unit or "bytes")[0].lower(), 1))
    except ValueError:  # more than one point
        return None


def matching_executable(
    executables: Iterable[Mapping[str, Any]], requested: int | None
) -> tuple[Mapping[str, Any], str] | None:
    """The one executable with a part that needs what was asked for, and that part. None if none has, or several.

    Its outputs count by their sum. Executables of the same function that match count as one, the first of them in
    `executables`.
    """
    if not requested:
        return None
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    larger = min(ALIGNMENT, requested // 8) + ROUNDING * requested
    for entry in executables:
        memory = entry["memory"] or {}
        for part in ("output", "temporary"):
            amount = memory.get(part, 0)
            if amount > 0 and -ROUNDING * requested <= requested - amount <= larger:
                found.setdefault(entry["function"], (entry, part))
    return next(iter(found.values())) if len(found) == 1 else None
