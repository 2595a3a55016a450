"""Memory of each device and of the process as it was sampled last, what holds it, and when it runs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxobs.derive.memory_trend import Highest, forecast
from jaxobs.derive.refusal import require
from jaxobs.model.clock import seconds
from jaxobs.model.events import PROCESS_MEMORY, LiveArraysCounted, MemorySampled
from jaxobs.model.figure import Figure, figure

NOT_TOLD = "the backend does not tell it"
SYSTEM_SILENT = "the system does not tell it"
NOT_SAMPLED = "not sampled yet"

MAX_DEVICES = 1_024
"""Largest number of local devices: no host has more."""

LASTING_SECONDS = 60.0
"""How long a forecast holds after the last sample, of which there is one a second."""

CENSUS_KEPT_SECONDS = 600.0
"""How long the last count of live arrays is shown where no newer one could be made. Where a job has many arrays, they
are counted only while it compiles or writes a checkpoint, which are minutes apart."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of the whole process, and the seconds until it runs out at its present growth."""

    in_use_bytes: Figure[int]
    peak_bytes: Figure[int]
    limit_bytes: Figure[int]
    growth_bytes_per_second: Figure[float]
    forecast_seconds: Figure[float]


@dataclass(frozen=True, slots=True)
class DeviceMemory(ProcessMemory):
    """Memory of a device; `fragmented_bytes` are the free bytes outside the largest free block."""

    largest_free_block_bytes: Figure[int]
    fragmented_bytes: Figure[int]


@dataclass(frozen=True, slots=True)
class LiveArrays:
    """The job's live arrays when last counted, by shape, type and sharding, and by the line that made them."""

    count: int
    bytes: int
    seconds_ago: float
    groups: Sequence[Mapping[str, Any]]
    lines: Figure[Sequence[Mapping[str, Any]]]
    lock_seconds: float


Amounts = tuple[Figure[int], Figure[int], Figure[int], Figure[float], Figure[float]]


class Memory:
    """The last samples of memory, the last count of live arrays, and the forecasts."""

    def __init__(self) -> None:
        self._last: dict[int, MemorySampled] = {}
        self._highest: dict[int, Highest] = {}
        self._forecasts: dict[int, tuple[Figure[float], Figure[float]]] = {}
        """Growth, and the seconds until the memory is full."""
        self._arrays: LiveArraysCounted | None = None

    def sampled(self, event: MemorySampled) -> None:
        amounts = (event.in_use, event.peak, event.limit, event.pool, event.largest_free, event.files)
        require(PROCESS_MEMORY <= event.device < MAX_DEVICES, "memory of no device")
        require(all(amount is None or amount >= 0 for amount in amounts), "a negative amount of memory")
        self._last[event.device] = event
        if event.in_use is None:
            self._highest.pop(event.device, None)  # a trend must not run across a gap
            self._forecasts.pop(event.device, None)
            return
        highest = self._highest.setdefault(event.device, Highest())
        # Pages of files, such as a data set read through `mmap`, are given back when memory runs short.
        kept = max(0, event.in_use - (event.files or 0))
        if highest.add(seconds(event.time), kept) or event.device not in self._forecasts:
            self._forecasts[event.device] = forecast(highest.complete(), event.limit)

    def counted(self, event: LiveArraysCounted) -> None:
        amounts = [event.arrays, event.bytes, *(amount for group in event.groups for amount in group[3:5])]
        require(all(amount is None or amount >= 0 for amount in amounts), "a negative number of arrays")
        require((event.arrays is None) == (event.bytes is None), "arrays of no size, or a size of no arrays")
        last = self._arrays
        if event.arrays is None and last is not None and last.arrays is not None:  # noqa: SIM102  # two thoughts
            if seconds(event.time - last.time) < CENSUS_KEPT_SECONDS:
                return  # the last count is shown, with its age
        self._arrays = event

    def device(self, device: int, now: int) -> Figure[DeviceMemory]:
        event = self._last.get(device)
        if event is None or event.in_use is None:
            return Figure(None, event.reason or NOT_TOLD if event else NOT_SAMPLED)
        largest, fragmented, reason = fragmentation(event)
        amounts = self._amounts(event, NOT_TOLD, now)
        return Figure(DeviceMemory(*amounts, figure(largest, reason), figure(fragmented, reason)))

    def process(self, now: int) -> Figure[ProcessMemory]:
        event = self._last.get(PROCESS_MEMORY)
        if event is None or event.in_use is None:
            return Figure(None, (event.reason if event else "") or NOT_SAMPLED)
        return Figure(ProcessMemory(*self._amounts(event, SYSTEM_SILENT, now)))

    def _amounts(self, event: MemorySampled, silent: str, now: int) -> Amounts:
        """The figures of `ProcessMemory`; `silent`: why a peak or a limit is not known."""
        known = (Figure(event.in_use), figure(event.peak, silent), figure(event.limit, silent))
        if (ago := seconds(now - event.time)) > LASTING_SECONDS:
            nothing: Figure[float] = Figure(None, f"not sampled for {ago:.0f} s")
            return *known, nothing, nothing
        return *known, *self._forecasts[event.device]

    def live_arrays(self, now: int) -> Figure[LiveArrays]:
        """The live arrays as they were counted last."""
        event = self._arrays
        if event is None or event.arrays is None or event.bytes is None:
            return Figure(None, event.reason if event else "not counted yet")
        groups = ("shape", "dtype", "sharding", "count", "bytes", "line")
        names = ("line", "count", "bytes")
        lines = [dict(zip(names, line, strict=True)) for line in event.lines] if event.lines else None
        by_line = Figure(lines, None if event.lines else "no array is alive")
        by_shape = [dict(zip(groups, group, strict=True)) for group in event.groups]
        ago = max(0.0, seconds(now - event.time))
        return Figure(LiveArrays(event.arrays, event.bytes, ago, by_shape, by_line, event.lock_seconds))


def fragmentation(event: MemorySampled) -> tuple[int | None, int | None, str]:
    """(the largest free block, free bytes outside it, why one of them is None).

    Free is what is not in use of the allocator's pool, or of its limit where it reports no pool. Older versions of
    XLA's BFC allocator report 0 for the largest free block, as they did not fill it in (`BFCAllocator::GetStats`).
    """
    whole = event.pool if event.pool is not None else event.limit
    if whole is None or event.in_use is None or whole < event.in_use:
        return event.largest_free or None, None, NOT_TOLD
    free, largest = whole - event.in_use, event.largest_free
    if largest is None or (largest == 0 and free > 0):
        return None, None, NOT_TOLD
    if largest > free:
        return largest, None, "its largest free block is larger than what is free"
    return largest, free - largest, ""
