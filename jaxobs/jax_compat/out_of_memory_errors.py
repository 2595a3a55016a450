"""Reads out-of-memory errors: the bytes that were asked for, and the executable that needs as many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

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
    """The bytes of the allocation that failed; None where the message does not say."""
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
    """The one executable with a part that needs what was asked for, and that part. None where none has, or several.

    `outputs` of an entry are the bytes of each of its outputs, where they are known; else their sum counts. Executables
    of the same function that match count as one, the first of them in `executables`.
    """
    if not requested:
        return None
    found: dict[str, tuple[Mapping[str, Any], str]] = {}
    larger = min(ALIGNMENT, requested // 8) + ROUNDING * requested
    for entry in executables:
        memory = entry["memory"] or {}
        # Each output is an allocation of its own.
        outputs = entry.get("outputs") or (memory.get("output", 0),)
        for part, amount in (
            *(("output", size) for size in outputs),
            ("temporary", memory.get("temporary", 0)),
        ):
            if amount > 0 and -ROUNDING * requested <= requested - amount <= larger:
                found.setdefault(entry["function"], (entry, part))
    return next(iter(found.values())) if len(found) == 1 else None
