"""Memory: what executables need, the statistics of each device, what out-of-memory errors say.

The statistics need a backend to exist; callers check `backend_exists()` first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxobs.plugin.guard import Suppressed

NAMES = {
    "in_use": "bytes_in_use",
    "peak": "peak_bytes_in_use",
    "limit": "bytes_limit",
    "pool": "pool_bytes",
    "largest_free": "largest_free_block_bytes",
}
"""Keys of `Device.memory_stats()` by the fields of `MemorySampled`. Not every backend and version has all of them."""


MEMORY_KINDS = {
    "argument": "argument_size_in_bytes",
    "output": "output_size_in_bytes",
    "temporary": "temp_size_in_bytes",
    "alias": "alias_size_in_bytes",
    "code": "generated_code_size_in_bytes",
}


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


def memory_of(executable: Any) -> tuple[tuple[tuple[str, int], ...], bytes]:
    """(kind, bytes) of XLA's memory analysis, per device, and its `BufferAssignmentProto`; empty where there is none.

    The analysis serialises the assignment in any case: to take it along adds 0.3 % (13 ms to 4.2 s) to the analysis of a
    module of 29 MB, and 187 kB to these.

    XLA's `peak_memory_in_bytes` is not among them: seen on a CPU (0.10.2 and 0.12.0.1) it has the arguments and outputs
    without the temporaries. The size of the code is left out unless it is positive: backends
    that do not know it say -1 or, as XLA's for CPUs, 0.
    """
    with Suppressed(Exception):  # not every backend has the analysis: then its memory is absent
        stats = executable.get_compiled_memory_stats()
        known = (
            (kind, int(getattr(stats, name))) for kind, name in MEMORY_KINDS.items() if hasattr(stats, name)
        )
        sums = tuple((kind, size) for kind, size in known if kind != "code" or size > 0)
        return sums, getattr(stats, "serialized_buffer_assignment_proto", None) or b""
    return (), b""


RAN_OUT = re.compile(
    r"out[ _]?of[ _]?memory|exceeds available shared memory|shared memory requested exceeds|\Aran out of shared memory"
    r"|uses too much shared data",
    re.IGNORECASE,
)
"""Says that memory ran out, whatever the status: XLA (`INTERNAL` on CPU up to JAX 0.8), CUDA's
`CUDA_ERROR_OUT_OF_MEMORY`, NCCL's `Cuda failure 2 'out of memory'`, Mosaic GPU, jaxlib's Triton kernels, `ptxas`."""

EXHAUSTED = re.compile(r"RESOURCE[_ ]?EXHAUSTED", re.IGNORECASE)
OF_MEMORY = re.compile(r"memory|\b(?:hbm|[vs]mem)\b", re.IGNORECASE)
NO_MEMORY = re.compile(r"\bquota|larger than max", re.IGNORECASE)
"""`RESOURCE_EXHAUSTED` is also the status of quotas, and of gRPC's messages that are larger than it takes."""

_SIZE = r"([\d.]+\s?(?:bytes\b|[KMGT](?:i?B)?\b|B\b))"
ALLOCATION = re.compile(
    rf"(?:alloc\w*|reserve|request for|of size:?)\s+(?:an? )?(?:{_SIZE}|(\d{{4,}})\b)(?:\s*\((\d+)\s?(?:B|bytes)?\))?",
    re.IGNORECASE | re.ASCII,
)
"""`allocating 16777216 bytes` (CPU), `trying to allocate 8.00GiB`, `request for 32.00MiB (33554432B)`, and a TPU's
`Attempting to allocate 4.39G.` and `Attempting to reserve 29.49G`."""

ON_CHIP = re.compile(
    r"(?:memory space |space=|scoped ?)(hbm|vmem|smem|cmem|spmem|tilespmem|sflag)"
    r"|(shared memory|tensor memory) (?:size limit|requested)|(?:available|\Aran out of) (shared memory)|(shared) data",
    re.IGNORECASE,
)
"""The memory that a message names first: a TPU's HBM or one of its cores' own, or that of a GPU's multiprocessors."""

PROGRAM = re.compile(r"(?:Error loading program |executable_name=)'(?:jit_)?([^']+)'")

POWERS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

ALIGNMENT = 4_096
ROUNDING = 0.005
"""Most bytes, and largest share, by which an allocation may exceed what it is for: alignment to a page, and rounding
where the message gives two decimals. Of a small allocation no more than an eighth counts as alignment."""


def speaks_of_memory(message: str) -> bool:
    """Whether a message of JAX's runtime says that memory ran out, or that a kernel exceeds a limit of on-chip memory."""
    if RAN_OUT.search(message):
        return True
    if not EXHAUSTED.search(message) or NO_MEMORY.search(message):
        return False
    return bool(OF_MEMORY.search(message)) or requested(message) is not None


def requested(message: str) -> int | None:
    """The bytes that could not be allocated; None if the message does not say, or tells of a limit that is exceeded."""
    if not (found := ALLOCATION.search(message)):
        return None
    amount, plain, exact = found.groups()
    number, unit = re.fullmatch(r"([\d.]+)\s?([KMGT]?).*", exact or plain or amount, re.IGNORECASE).groups()  # type: ignore[union-attr]
    try:
        return round(float(number) * POWERS.get(unit.lower(), 1))
    except (ValueError, OverflowError):  # more than one point, or too many digits
        return None


def on_chip_memory(message: str) -> str | None:
    """The on-chip memory whose limit a kernel exceeds, such as `VMEM` or `shared memory`; None for a device's own."""
    found = ON_CHIP.search(message)
    name = found[found.lastindex or 0].lower() if found else "hbm"
    names = {"hbm": None, "shared": "shared memory"}
    return names[name] if name in names else name if " " in name else name.upper()


def named_program(message: str) -> str | None:
    """The jitted function whose program a message says could not be loaded or run."""
    found = PROGRAM.search(message)
    return found[1] if found else None


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
