"""The outcomes of profiler windows, and their limits."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

OUTCOMES: Final = ("read", "empty", "cut", "too_large", "failed", "user_session", "unreadable")
"""The outcomes of a window, which are labels of `jaxobs_profile_windows_total`.

`read`: there is a trace to read. `empty`: nothing of a device is in it. `cut`: it ended early, lest its trace become
too large. `too_large`: the trace was too large nevertheless, and was thrown away. `user_session`: a profiler session of
the job's own took precedence. `failed`: JAX's profiler failed. `unreadable`: a trace was made and could not be read.
"""


LARGEST_TRACE: Final = 64 * 2**20
"""Largest trace in bytes that the agent reads while the job runs. Reading one of this size takes about seven times its
bytes of memory and 4 s (measured)."""


MAX_WINDOW: Final = 60.0
"""Longest window in seconds, since a profiler session keeps every event in memory until it ends."""


class ProfileResult(NamedTuple):
    """`outcome` is one of `OUTCOMES`; `path` is the raw trace where it was kept; `reason` is empty if all went well."""

    outcome: str
    path: str
    reason: str


def checked_seconds(seconds: float | str) -> float:
    """The length of a window. Raises ValueError unless it is a number above 0 and at most `MAX_WINDOW`."""
    try:
        number = float(seconds)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 < number <= MAX_WINDOW:
        raise ValueError(f"seconds={seconds!r} is not above 0 and at most {MAX_WINDOW:.0f}")
    return number
