"""What was seen of the backend, the memory, the main thread, and in a profiler window."""

from __future__ import annotations

from typing import NamedTuple


class BackendFound(NamedTuple):
    """JAX has a backend: its local devices as (local ordinal, device kind, identity), and which process this is.

    `local_hardware_ids` are the driver's own numbers of these devices, in the same order; empty where JAX has none.
    """

    platform: str
    devices: tuple[tuple[int, str, str], ...]
    process_index: int
    process_count: int
    jax_version: str
    jaxlib_version: str
    time: int
    local_hardware_ids: tuple[int, ...] = ()


PROCESS_MEMORY = -1
"""In place of a device's ordinal in `MemorySampled`: the memory of the process, where CPU devices keep their arrays."""


class MemorySampled(NamedTuple):
    """Memory at one moment, in bytes: of a local device by its ordinal, or of the whole process (PROCESS_MEMORY).

    `pool` is what the allocator has taken from the device, `largest_free` the largest free block in it, `files` the part
    of what a process uses that is pages of files, which the system takes back when it needs them. What is None is not
    known; `reason` says why nothing is, where nothing is.
    """

    device: int
    in_use: int | None
    peak: int | None
    limit: int | None
    pool: int | None
    largest_free: int | None
    reason: str
    time: int
    files: int | None = None


class LiveArraysCounted(NamedTuple):
    """A census of the live arrays on this process's devices, or why there was none (then `arrays` is None).

    `groups`: the largest, as (shape, dtype, sharding, count, bytes, the line that made most of these bytes).
    `lines`: those that made the most bytes, as (line, count, bytes); an empty line stands for arrays whose line is not
    known. `lines_reason`: why there are no lines. `lock_seconds`: how long listing them held the interpreter lock.
    """

    arrays: int | None
    bytes: int | None
    groups: tuple[tuple[str, str, str, int, int, str], ...]
    lines: tuple[tuple[str, int, int], ...]
    lines_reason: str
    lock_seconds: float
    reason: str
    time: int


class MainThreadSampled(NamedTuple):
    """Where the main thread was from `start` to `end`, as samples of its Python stack tell.

    `rows` are (loop, line, what it waits in below that line, activity, seconds, samples): the loop whose step was under
    way, empty outside steps; the line as the user knows it; an activity of `jaxobs.vocabulary.activities`. The
    seconds of all rows add up to the time between the first and the last sample.
    """

    start: int
    end: int
    rows: tuple[tuple[str, str, str, str, float, int], ...]


class ProfileWindow(NamedTuple):
    """A session of JAX's profiler is over, ours or the user's own.

    `kind`: `scheduled`, `requested` or `user`. It recorded from `start` to `end`; `cost` is the time that it took from
    the job in all: start, `stop()`, and what the traced steps were slower. `xspace` is the serialised trace, None where
    there is none to read, and then `reason` says why. `outcome` is the label of `jaxobs_profile_windows_total`.
    `path`: where the raw trace was kept, empty where it was not.
    """

    kind: str
    outcome: str
    start: int
    end: int
    cost: int
    xspace: bytes | None
    path: str
    reason: str
