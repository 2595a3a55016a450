"""Reads a GPU's plane: kernels and copies, with a line for each stream.

XLA's collectors for CUPTI and ROCm write it (``xla/backends/profiler/gpu/cupti_collector.cc`` and its sibling).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jaxobs.trace.modules import ModuleIndex, kind_of_event, program_of, text_of
from jaxobs.trace.planes import EventStats, Line, Plane, PlaneMetadata, lines_of, payload
from jaxobs.trace.timeline import MAX_DURATION, Timeline

_DISTINCT_STATS: Final = frozenset(
    ["hlo_op", "hlo_module", "program_id", "memcpy_details", "cuda_graph_exec_id"]
)
_STREAM: Final = "Stream #"
_GRAPH: Final = "cuda_graph_exec_id"
_MEMORY: Final = ("MemoryAlloc", "MemoryFree", "MemoryResidency", "Memory Alloc", "Memory Free")
"""Events of the allocator, which take no time of the device."""

MAX_LAUNCH: Final = 20 * 10**6
"""Longest wait, in picoseconds, that is taken for a kernel's launch, which takes 2 to 10 µs; dispatching the next
executable takes the host far longer."""

_Entry = tuple[int, int]
_SKIPPED: Final[_Entry] = (-1, -1)


def read_gpu(
    plane: Plane, metadata: PlaneMetadata, host: str, modules: ModuleIndex, copies: Mapping[bytes, str]
) -> tuple[Timeline, int]:
    """A GPU and the number of events read; `copies` are the host's calls by correlation id. Raises TraceError."""
    reader = _GpuPlane(metadata, Timeline(metadata.name, host, "gpu", modules), copies)
    reader.device.capabilities = metadata.stats
    for line in lines_of(plane):
        if line.name.startswith(_STREAM):  # other lines repeat the streams' events in another form
            reader.read(line)
    reader.device.launches = _launches(reader.device)
    return reader.device, reader.events


def _launches(device: Timeline) -> list[tuple[int, int]]:
    """The waits of at most MAX_LAUNCH between two operations of one program, on any streams."""
    found = []
    reach, last = -1, None
    for start, end, index in sorted(device.intervals):
        program = device.operations[index].program_id
        if program is not None and program == last and 0 <= reach < start <= reach + MAX_LAUNCH:
            found.append((reach, start))
        if end > reach:
            reach, last = end, program
    return found


class _GpuPlane:
    def __init__(self, metadata: PlaneMetadata, device: Timeline, copies: Mapping[bytes, str]) -> None:
        self.device = device
        self.events = 0
        self._metadata, self._copies = metadata, copies
        self._stats = EventStats(metadata, _DISTINCT_STATS)
        self._tables: dict[int, dict[tuple[int | None, ...], _Entry]] = {}

    def read(self, line: Line) -> None:
        base = line.base
        tables, code, intervals = self._tables, self._stats.code, self.device.intervals
        operations = self.device.operations
        previous = first_kernel = -1
        for event in line.events:
            metadata_id = event.metadata_id
            stats = event.stats[:]
            key = tuple(map(code, stats))
            table = tables.get(metadata_id)
            entry = table.get(key) if table else None
            if entry is None:
                entry = self._find(metadata_id, stats)
            index, correlation_at = entry
            if index < 0:
                continue
            if correlation_at >= 0:
                index = self._copy(metadata_id, payload(stats[correlation_at]), index)
            start = base + event.offset_ps
            duration = event.duration_ps
            if duration < 0 or duration > MAX_DURATION or start < 0:
                self.device.wrong_times += 1
                continue
            intervals.append((start, start + duration, index))
            # The kernels of an instruction are consecutive: its first kernel coming again is the next execution.
            if index != previous or metadata_id == first_kernel:
                operations[index].executions += 1
                previous, first_kernel = index, metadata_id
        self.events += len(line.events)

    def _find(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        key = self._stats.learn(stats)
        table = self._tables.setdefault(metadata_id, {})
        if key not in table:
            table[key] = self._classify(metadata_id, stats)
        return table[key]

    def _classify(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        """The operation's index, and that of its correlation id if only the host's call shows its kind (else -1)."""
        known = self._metadata.events.get(metadata_id)
        name = known.name if known else f"event {metadata_id}"
        if name.startswith(_MEMORY):
            return _SKIPPED
        values = self._stats.read(stats)
        details = text_of(values, "memcpy_details")
        kind = kind_of_event(name, details)
        hidden = _GRAPH in values or name == "CudaGraph"
        index = self.device.operation(
            name,
            program_of(values),
            instruction=None if hidden else text_of(values, "hlo_op") or None,
            module=text_of(values, "hlo_module"),
            kind="command_buffer" if hidden else kind if kind != "compute" else None,
            category="command-buffer" if hidden else None,
        )
        operation = self.device.operations[index]
        operation.kernels[name] = None
        asks_host = operation.instruction is None and operation.kind == "copy" and details is None
        return index, self._stats.position(stats, "correlation_id") if asks_host else -1

    def _copy(self, metadata_id: int, correlation: bytes, index: int) -> int:
        """The operation of a copy whose kernel does not name its source and destination, by the host's call."""
        call = self._copies.get(correlation)
        if call is None:
            return index
        name = self._metadata.events[metadata_id].name
        return self.device.operation(
            f"{name} ({call})", None, instruction=None, module=None, kind=kind_of_event(name, None, call)
        )
