"""Memory of each device and of the process as it was sampled last, what holds it, and when it runs out."""

from __future__ import annotations

from jaxobs.derive.memory.trend import Forecast, Highest, forecast
from jaxobs.derive.memory.view import (
    NOT_TOLD,
    DeviceMemory,
    LiveArrays,
    ProcessMemory,
    device_memory,
    live_arrays,
    process_memory,
)
from jaxobs.derive.metrics.catalogue import memory_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.model.clock import seconds
from jaxobs.model.events import PROCESS_MEMORY, LiveArraysCounted, MemorySampled
from jaxobs.model.figure import Figure
from jaxobs.vocabulary.text import OTHER

DEVICES = 1_024
"""Largest number of local devices: no host has more."""

GROUPS = 20
LINES = 10
"""Groups of live arrays, and lines that made them, with series of their own; the rest are summed in one more series."""

CENSUS_KEPT_SECONDS = 600.0
"""How long the last count of live arrays is shown where no newer one could be made. Where a job has many arrays, they
are counted only while it compiles or writes a checkpoint, which are minutes apart."""

NOT_SAMPLED = "not sampled yet"
UNKNOWN_LINE = "(unknown)"


class Memory:
    """The last samples of memory, the last count of live arrays, and the forecasts."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._last: dict[int, MemorySampled] = {}
        self._highest: dict[int, Highest] = {}
        self._forecasts: dict[int, Forecast] = {}
        self._devices: dict[int, DeviceMemory] = {}
        self._process: ProcessMemory | None = None
        self._arrays: LiveArraysCounted | None = None

    def sampled(self, event: MemorySampled) -> None:
        amounts = (event.in_use, event.peak, event.limit, event.pool, event.largest_free, event.files)
        require(PROCESS_MEMORY <= event.device < DEVICES, "memory of no device")
        require(all(amount is None or amount >= 0 for amount in amounts), "a negative amount of memory")
        self._last[event.device] = event
        if event.in_use is None:
            self._highest.pop(event.device, None)  # a trend must not run across a gap
            self._forecasts.pop(event.device, None)
        else:
            highest = self._highest.setdefault(event.device, Highest())
            # Pages of files, such as a data set read through `mmap`, are given back when memory runs short.
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
                return  # the last count is shown, with its age
        self._arrays = event
        groups, lines = event.groups[:GROUPS], event.lines[:LINES]
        counts = {group[:3]: group[3] for group in groups}
        sizes = {group[:3]: group[4] for group in groups}
        by_line = {(line or UNKNOWN_LINE,): size for line, _, size in lines}
        if event.arrays is not None and event.bytes is not None:
            counts[OTHER, OTHER, OTHER] = max(0, event.arrays - sum(counts.values()))
            sizes[OTHER, OTHER, OTHER] = max(0, event.bytes - sum(sizes.values()))
            if by_line:
                by_line[OTHER,] = max(0, event.bytes - sum(by_line.values()))
        self._series.replace(memory_metrics.LIVE_ARRAYS, counts.items())
        self._series.replace(memory_metrics.LIVE_ARRAYS_BYTES, sizes.items())
        self._series.replace(memory_metrics.LIVE_ARRAYS_LINE_BYTES, by_line.items())

    def device(self, device: int) -> Figure[DeviceMemory]:
        event = self._last.get(device)
        if event is None or event.in_use is None:
            return Figure(None, event.reason or NOT_TOLD if event else NOT_SAMPLED)
        return Figure(self._devices[device])

    @property
    def process(self) -> Figure[ProcessMemory]:
        event = self._last.get(PROCESS_MEMORY)
        if event is None or event.in_use is None:
            return Figure(None, (event.reason if event else "") or NOT_SAMPLED)
        return Figure(self._process)

    def live_arrays(self, now: int) -> Figure[LiveArrays]:
        """The live arrays as they were counted last."""
        event = self._arrays
        if event is None or event.arrays is None:
            return Figure(None, event.reason if event else "not counted yet")
        return Figure(live_arrays(event, now))

    def _show(self, event: MemorySampled) -> None:
        ahead = self._forecasts.get(event.device)
        if event.device == PROCESS_MEMORY:
            process = self._process = process_memory(event, ahead)
            self._series.set(memory_metrics.PROCESS_MEMORY_PEAK, (), process.peak_bytes.value)
            self._series.set(memory_metrics.PROCESS_MEMORY_LIMIT, (), process.limit_bytes.value)
            self._series.set(memory_metrics.PROCESS_MEMORY_EXHAUSTION, (), process.forecast_seconds.value)
            return
        view = self._devices[event.device] = device_memory(event, ahead)
        for metric, shown in (
            (memory_metrics.DEVICE_MEMORY_IN_USE, view.in_use_bytes),
            (memory_metrics.DEVICE_MEMORY_PEAK, view.peak_bytes),
            (memory_metrics.DEVICE_MEMORY_LIMIT, view.limit_bytes),
            (memory_metrics.DEVICE_MEMORY_LARGEST_FREE, view.largest_free_block_bytes),
            (memory_metrics.DEVICE_MEMORY_FRAGMENTED, view.fragmented_bytes),
            (memory_metrics.DEVICE_MEMORY_EXHAUSTION, view.forecast_seconds),
        ):
            self._series.set(metric, (str(event.device),), shown.value)
