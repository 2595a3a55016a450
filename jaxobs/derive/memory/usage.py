"""Memory: of each device and of the process, what holds it, which executable needs the most, and when it runs out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jaxobs.derive.memory.trend import Forecast, Highest, forecast
from jaxobs.derive.metrics.catalogue import memory_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.model.clock import seconds
from jaxobs.model.events import PROCESS_MEMORY, LiveArraysCounted, MemorySampled
from jaxobs.vocabulary.labels import OTHER

DEVICES = 1_024
"""More local devices than this have no host."""

GROUPS = 20
LINES = 10
"""Groups of live arrays, and lines that made them, with series of their own; the rest is one series more."""

CENSUS_KEPT_SECONDS = 600.0
"""So long the last count of live arrays is shown where no newer one could be made. A job with many arrays is counted only
while it compiles or writes a checkpoint, which are minutes apart."""

NOT_SAMPLED = "not sampled yet"
NOT_TOLD = "the backend does not tell it"
UNKNOWN_LINE = "(unknown)"


class Memory:
    """What was sampled last, and how it has gone on."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._last: dict[int, MemorySampled] = {}
        self._highest: dict[int, Highest] = {}
        self._forecasts: dict[int, Forecast] = {}
        self._arrays: LiveArraysCounted | None = None

    def sampled(self, event: MemorySampled) -> None:
        amounts = (event.in_use, event.peak, event.limit, event.pool, event.largest_free, event.files)
        require(PROCESS_MEMORY <= event.device < DEVICES, "memory of no device")
        require(all(amount is None or amount >= 0 for amount in amounts), "a negative amount of memory")
        self._last[event.device] = event
        if event.in_use is None:
            self._highest.pop(event.device, None)  # what comes after a gap is another story
            self._forecasts.pop(event.device, None)
        else:
            highest = self._highest.setdefault(event.device, Highest())
            # A data set read through `mmap` does not fill the memory.
            kept = max(0, event.in_use - (event.files or 0))
            if highest.add(seconds(event.time), kept) or event.device not in self._forecasts:
                self._forecasts[event.device] = forecast(highest.complete(), event.limit)
        self._show(event)

    def counted(self, event: LiveArraysCounted) -> None:
        amounts = [event.arrays, event.bytes, *(amount for group in event.groups for amount in group[3:5])]
        require(all(amount is None or amount >= 0 for amount in amounts), "a negative number of arrays")
        last = self._arrays
        if event.arrays is None and last is not None and last.arrays is not None:  # noqa: SIM102  # two thoughts
            if seconds(event.time - last.time) < CENSUS_KEPT_SECONDS:
                return  # it is shown with its age
        self._arrays = event
        groups, lines = event.groups[:GROUPS], event.lines[:LINES]
        counts = {group[:3]: group[3] for group in groups}
        sizes = {group[:3]: group[4] for group in groups}
        made = {(line or UNKNOWN_LINE,): size for line, _, size in lines}
        if event.arrays is not None and event.bytes is not None:
            counts[OTHER, OTHER, OTHER] = max(0, event.arrays - sum(counts.values()))
            sizes[OTHER, OTHER, OTHER] = max(0, event.bytes - sum(sizes.values()))
            if made:
                made[OTHER,] = max(0, event.bytes - sum(made.values()))
        self._series.replace(memory_metrics.LIVE_ARRAYS, counts.items())
        self._series.replace(memory_metrics.LIVE_ARRAYS_BYTES, sizes.items())
        self._series.replace(memory_metrics.LIVE_ARRAYS_LINE_BYTES, made.items())

    def device_document(self, device: int) -> dict[str, Any]:
        """`memory` of a device, or None with its reason."""
        event = self._last.get(device)
        if event is None or event.in_use is None:
            reason = event.reason or NOT_TOLD if event else NOT_SAMPLED
            return {"memory": None, "memory_reason": reason}
        free, largest, fragmented, reason = fragmentation(event)
        told: dict[str, tuple[float | None, str]] = {
            "in_use_bytes": (event.in_use, NOT_TOLD),
            "peak_bytes": (event.peak, NOT_TOLD),
            "limit_bytes": (event.limit, NOT_TOLD),
            "largest_free_block_bytes": (largest, reason),
            "free_bytes": (free, NOT_TOLD),
            "fragmented_bytes": (fragmented, reason),
            "fragmentation_ratio": (
                fragmented / free if fragmented is not None and free else None,
                reason or "nothing is free",
            ),
        }
        return {"memory": _with_reasons(told) | self._forecast_document(device)}

    def process_document(self, executables: Iterable[Mapping[str, Any]], now: int) -> dict[str, Any]:
        """What belongs under `process`; `executables` are the entries of the document."""
        return {
            **self._process_memory(),
            **peak_executable(executables),
            **live_arrays_document(self._arrays, now),
        }

    def _process_memory(self) -> dict[str, Any]:
        event = self._last.get(PROCESS_MEMORY)
        if event is None or event.in_use is None:
            return {"memory": None, "memory_reason": (event.reason if event else "") or NOT_SAMPLED}
        told: dict[str, tuple[float | None, str]] = {
            "in_use_bytes": (event.in_use, NOT_TOLD),
            "peak_bytes": (event.peak, "the system does not tell it"),
            "limit_bytes": (event.limit, "the system does not tell it"),
        }
        return {"memory": _with_reasons(told) | self._forecast_document(PROCESS_MEMORY)}

    def _forecast_document(self, device: int) -> dict[str, Any]:
        ahead = self._forecasts[device]
        return {
            "growth_bytes_per_second": ahead.bytes_per_second,
            "growth_bytes_per_second_reason": None if ahead.bytes_per_second is not None else ahead.reason,
            "forecast_seconds": ahead.seconds,
            "forecast_seconds_reason": ahead.reason,
        }

    def _show(self, event: MemorySampled) -> None:
        ahead = self._forecasts.get(event.device)
        left = ahead.seconds if ahead is not None else None
        if event.device == PROCESS_MEMORY:
            self._series.set(memory_metrics.PROCESS_MEMORY_PEAK, (), event.peak)
            self._series.set(memory_metrics.PROCESS_MEMORY_LIMIT, (), event.limit)
            self._series.set(memory_metrics.PROCESS_MEMORY_EXHAUSTION, (), left)
            return
        labels = (str(event.device),)
        _, largest, fragmented, _ = fragmentation(event)
        for metric, value in (
            (memory_metrics.DEVICE_MEMORY_IN_USE, event.in_use),
            (memory_metrics.DEVICE_MEMORY_PEAK, event.peak),
            (memory_metrics.DEVICE_MEMORY_LIMIT, event.limit),
            (memory_metrics.DEVICE_MEMORY_LARGEST_FREE, largest),
            (memory_metrics.DEVICE_MEMORY_FRAGMENTED, fragmented),
            (memory_metrics.DEVICE_MEMORY_EXHAUSTION, left),
        ):
            self._series.set(metric, labels, value)


def fragmentation(event: MemorySampled) -> tuple[int | None, int | None, int | None, str]:
    """(free bytes, the largest free block, free bytes outside it, why one of the latter two is None).

    Free is what the allocator holds and nobody uses: of its pool, or of its limit where it tells no pool. XLA's BFC
    allocator tells 0 for the largest free block in versions before it filled that in (`BFCAllocator::GetStats`).
    """
    whole = event.pool if event.pool is not None else event.limit
    if whole is None or event.in_use is None or whole < event.in_use:
        return None, event.largest_free or None, None, NOT_TOLD
    free, largest = whole - event.in_use, event.largest_free
    if largest is None or (largest == 0 and free > 0):
        return free, None, None, NOT_TOLD
    if largest > free:
        return free, largest, None, "its largest free block is larger than what is free"
    return free, largest, free - largest, ""


def memory_need(memory: Mapping[str, int]) -> int:
    """Bytes of device memory that one run takes, by XLA's memory analysis: an aliased output is an argument's memory."""
    kinds = ("argument", "output", "temporary", "code")
    return sum(memory.get(kind, 0) for kind in kinds) - memory.get("alias", 0)


def peak_executable(executables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """`peak_executable`: the one that needs the most memory on a device, or None with its reason."""
    known = [entry for entry in executables if entry["memory"]]
    if not known:
        return {"peak_executable": None, "peak_executable_reason": "no executable has a memory analysis"}
    largest = max(known, key=lambda entry: memory_need(entry["memory"]))
    return {
        "peak_executable": {
            "function": largest["function"],
            "executable": largest["executable"],
            "executable_reason": largest.get("executable_reason"),
            "bytes": memory_need(largest["memory"]),
        }
    }


def live_arrays_document(event: LiveArraysCounted | None, now: int) -> dict[str, Any]:
    """`live_arrays` as they were counted last, or None with its reason."""
    if event is None or event.arrays is None:
        return {"live_arrays": None, "live_arrays_reason": event.reason if event else "not counted yet"}
    groups = ("shape", "dtype", "sharding", "count", "bytes", "line")
    lines = ("line", "count", "bytes")
    return {
        "live_arrays": {
            "count": event.arrays,
            "bytes": event.bytes,
            "seconds_ago": max(0.0, seconds(now - event.time)),
            "groups": [dict(zip(groups, group, strict=True)) for group in event.groups],
            "lines": [dict(zip(lines, line, strict=True)) for line in event.lines] if event.lines else None,
            "lines_reason": event.lines_reason or (None if event.lines else "no array is alive"),
            "lock_seconds": event.lock_seconds,
        }
    }


def _with_reasons(told: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, (value, reason) in told.items():
        document |= {name: value, f"{name}_reason": reason if value is None else None}
    return document
