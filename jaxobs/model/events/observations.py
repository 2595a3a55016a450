"""Events of observations: of the backend, the memory, the main thread, and profiler windows."""

from __future__ import annotations

from typing import NamedTuple


class BackendFound(NamedTuple):
    """JAX has a backend: its local devices as (local ordinal, device kind, identity), and this process's index.

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
"""Value of `MemorySampled.device` for the memory of the process, in which CPU devices keep their arrays."""


class MemorySampled(NamedTuple):
    """Memory at one moment, in bytes: of a local device by its ordinal, or of the whole process (PROCESS_MEMORY).

    `pool` is what the allocator has taken from the device, `largest_free` the largest free block in it, `files` the
    part of a process's memory that is pages of files, which the system takes back when it needs them. None is unknown;
    where all are unknown, `reason` says why.
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

    `groups`: the largest groups, as (shape, dtype, sharding, count, bytes, the line that made most of these bytes).
    `lines`: the lines that made the most bytes, as (line, count, bytes); an empty line stands for arrays whose line is
    unknown. `lines_reason`: why there are no lines. `lock_seconds`: how long the listing held the interpreter lock.
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
    """The activities of the main thread from `start` to `end`, from samples of its Python stack.

    `rows` are (loop, line, callee, activity, seconds, samples): the loop whose step was under way, empty outside steps;
    the line of the user's program; what it waits in below that line; an activity of `jaxobs.vocabulary.activities`. The
    seconds of all rows add up to the time between the first and the last sample.
    """

    start: int
    end: int
    rows: tuple[tuple[str, str, str, str, float, int], ...]


class ProfileWindow(NamedTuple):
    """A session of JAX's profiler is over, ours or the user's own.

    `kind`: `scheduled`, `requested` or `user`. It recorded from `start` to `end`; `cost` is the time that it cost the
    job: starting, `stop()`, and the slowdown of traced steps. `xspace` is the serialised trace; None where there is
    none to read, and then `reason` says why. `outcome` is the label of `jaxobs_profile_windows_total`. `path`: where
    the raw trace was kept, empty where it was not.
    """

    kind: str
    outcome: str
    start: int
    end: int
    cost: int
    xspace: bytes | None
    path: str
    reason: str
