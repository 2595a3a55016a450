"""What became of a profiler window that somebody asked for."""

from __future__ import annotations

from typing import Final, NamedTuple

OUTCOMES: Final = ("read", "empty", "cut", "too_large", "failed", "user_session", "unreadable")
"""What can become of a window: the labels of `jaxobs_profile_windows_total`.

`read`: there is a trace to read. `empty`: nothing of a device is in it. `cut`: ended early, lest its trace become too
large. `too_large`: it did nevertheless, and was thrown away. `user_session`: the job's own profiler session went first.
`failed`: JAX's profiler did not do it. `unreadable`: the trace was made and could not be read.
"""


class ProfileResult(NamedTuple):
    """`outcome` is one of `OUTCOMES`; `path` is the raw trace where it was kept; `reason` is empty if all went well."""

    outcome: str
    path: str
    reason: str
