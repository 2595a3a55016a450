"""What became of a profiler window that somebody asked for."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

OUTCOMES: Final = ("read", "empty", "cut", "too_large", "failed", "user_session", "unreadable")
"""What can become of a window: the labels of `jaxobs_profile_windows_total`.

`read`: there is a trace to read. `empty`: nothing of a device is in it. `cut`: ended early, lest its trace become too
large. `too_large`: it did nevertheless, and was thrown away. `user_session`: the job's own profiler session went first.
`failed`: JAX's profiler did not do it. `unreadable`: the trace was made and could not be read.
"""


LARGEST_TRACE: Final = 64 * 2**20
"""Bytes of a trace that the agent reads while the job runs. Reading takes about seven times as much memory, and 4 s for
so many (measured)."""


LONGEST_WINDOW: Final = 60.0
"""Seconds. A profiler session keeps every event in memory until it ends."""


class ProfileResult(NamedTuple):
    """`outcome` is one of `OUTCOMES`; `path` is the raw trace where it was kept; `reason` is empty if all went well."""

    outcome: str
    path: str
    reason: str


def checked_seconds(seconds: float | str) -> float:
    """How long a window is to be. Raises ValueError for what is no number above 0 and at most `LONGEST_WINDOW`."""
    try:
        number = float(seconds)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 < number <= LONGEST_WINDOW:
        raise ValueError(f"seconds={seconds!r} is not above 0 and at most {LONGEST_WINDOW:.0f}")
    return number
