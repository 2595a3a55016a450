"""Reads a GPU's plane: kernels and copies, with a line for each stream.

XLA's collectors for CUPTI and ROCm write it (``xla/backends/profiler/gpu/cupti_collector.cc`` and its sibling).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from jaxobs.model.intervals import Span
from jaxobs.trace.attribution import Run
from jaxobs.trace.modules import ModuleIndex, kind_of_event, library_kernel, program_of, text_of
from jaxobs.trace.planes import EventStats, Line, Plane, Value, lines_of, payload
from jaxobs.trace.timeline import MAX_DURATION, Timeline

_DISTINCT_STATS: Final = frozenset(
    ["hlo_op", "hlo_module", "program_id", "memcpy_details", "cuda_graph_exec_id"]
)
_STREAM: Final = "Stream #"
_GRAPH: Final = "cuda_graph_exec_id"
_NODE: Final = "cuda_graph_node_id"
_MEMORY: Final = ("MemoryAlloc", "MemoryFree", "MemoryResidency", "Memory Alloc", "Memory Free")
"""Events of the allocator, which take no time of the device."""

MAX_LAUNCH: Final = 20 * 10**6
"""Longest wait, in picoseconds, that is taken for a kernel's launch, which takes 2 to 10 µs; dispatching the next
executable takes the host far longer."""

_SUM_OF_SPLIT: Final = re.compile("split_?k_?reduce|reduce_?split_?k", re.IGNORECASE)
"""The second kernel of a product that cuBLAS splits along the contracted dimension."""

_Entry = tuple[int, int]
"""The index of an event's operation, and that of the statistic which tells it from others of its kind (else -1)."""
_SKIPPED, _IN_GRAPH = -1, -2
"""In place of the index of an operation."""


class _Node(NamedTuple):
    """A node of a CUDA graph: one kernel or copy, and when it ran."""

    kernel: str
    stats: Mapping[str, Value]
    spans: list[Span]


def _number(value: Value) -> int:
    return value if isinstance(value, int) else 0  # of another type in a corrupted trace alone


def _launches(device: Timeline) -> Iterator[Run]:
    """The waits of at most MAX_LAUNCH between two operations of one program, on any streams."""
    reach, last = -1, None
    for start, end, index in sorted(device.intervals):
        program = device.operations[index].program_id
        if program is not None and program == last and 0 <= reach < start <= reach + MAX_LAUNCH:
            yield reach, start, program
        if end > reach:
            reach, last = end, program


class GpuPlane:
    """Reads a GPU, the `device`; `copies` are the host's calls by correlation id. Raises TraceError."""

    def __init__(self, plane: Plane, host: str, modules: ModuleIndex, copies: Mapping[bytes, str]) -> None:
        self.device = Timeline(plane.name, host, "gpu", modules)
        self.device.capabilities = plane.stats
        self._plane, self._copies, self._modules = plane, copies, modules
        self._stats = EventStats(plane, _DISTINCT_STATS)
        self._nodes: dict[tuple[int, bytes], _Node] = {}
        for line in lines_of(plane):
            if line.name.startswith(_STREAM):  # other lines repeat the streams' events in another form
                self._read(line)
        self._add_graphs()
        self.device.launches = list(_launches(self.device))

    def _read(self, line: Line) -> None:
        base = line.base
        entries, code, intervals = self._stats.entries, self._stats.code, self.device.intervals
        operations = self.device.operations
        previous = first_kernel = -1
        for event in line.events:
            metadata_id = event.metadata_id
            stats = event.stats[:]
            known = entries.get((metadata_id, *map(code, stats)))
            index, value_at = known or self._stats.entry(metadata_id, stats, self._classify)
            if index == _SKIPPED:
                continue
            start = base + event.offset_ps
            duration = event.duration_ps
            if duration < 0 or duration > MAX_DURATION or start < 0:
                self.device.wrong_times += 1
                continue
            if index == _IN_GRAPH:
                self._node(metadata_id, stats, value_at).spans.append((start, start + duration))
                continue
            if value_at >= 0:
                index = self._copy(metadata_id, payload(stats[value_at]), index)
            intervals.append((start, start + duration, index))
            # The kernels of an instruction are consecutive: its first kernel coming again is the next execution.
            if index != previous or metadata_id == first_kernel:
                operations[index].executions += 1
                previous, first_kernel = index, metadata_id

    def _classify(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        """The operation; with its correlation id if only the host's call shows its kind, or the node of its graph."""
        known = self._plane.events.get(metadata_id)
        name = known.name if known else f"event {metadata_id}"
        if name.startswith(_MEMORY):
            return _SKIPPED, -1
        values = self._plane.read(stats)
        if _NODE in values:
            return _IN_GRAPH, self._stats.position(stats, _NODE)
        instruction = text_of(values, "hlo_op") or self._modules.of_kernel(program_of(values), name)
        hidden = _GRAPH in values or name == "CudaGraph"
        index = self._operation(name, values, instruction, hidden=hidden)
        operation = self.device.operations[index]
        is_copy = operation.instruction is None and operation.kind == "copy"
        asks_host = is_copy and "memcpy_details" not in values
        return index, self._stats.position(stats, "correlation_id") if asks_host else -1

    def _operation(
        self, name: str, values: Mapping[str, Value], instruction: str | None, *, hidden: bool = False
    ) -> int:
        kind = kind_of_event(name, text_of(values, "memcpy_details"))
        index = self.device.operation(
            name,
            program_of(values),
            instruction=None if hidden else instruction,
            module=text_of(values, "hlo_module"),
            kind="command_buffer" if hidden else kind if kind != "compute" else None,
            category="command-buffer" if hidden else None,
        )
        self.device.operations[index].kernels[name] = None
        return index

    def _node(self, metadata_id: int, stats: list[bytes], at: int) -> _Node:
        key = metadata_id, payload(stats[at])
        if key not in self._nodes:
            known = self._plane.events.get(metadata_id)
            name = known.name if known else f"event {metadata_id}"
            self._nodes[key] = _Node(name, self._plane.read(stats), [])
        return self._nodes[key]

    def _add_graphs(self) -> None:
        """Add what ran in CUDA graphs, each kernel as the instruction that it executes where that can be told.

        Nodes are numbered as XLA adds them, in the schedule's order. A graph within another lies in its node's place, or
        after all others where it is conditional: openxla/xla, ``cuda_graph_topology_mapper.h``.
        """
        nodes = sorted(self._nodes.values(), key=lambda node: _number(node.stats[_NODE]))
        for node, instruction in zip(nodes, self._instructions(nodes), strict=True):
            index = self._operation(node.kernel, node.stats, instruction)
            operation = self.device.operations[index]
            operation.in_graph = True
            if node.kernel == next(iter(operation.kernels)):  # others belong to the same executions
                operation.executions += len(node.spans)
            self.device.intervals += [(start, end, index) for start, end in node.spans]
        counts = Counter((program_of(node.stats), len(node.spans)) for node in nodes)
        self.device.launches_of_graphs = dict(pair for pair, _ in reversed(counts.most_common()))

    def _instructions(self, nodes: Sequence[_Node]) -> list[str | None]:
        """The instruction of each node: as its event says, of its kernel's name, or by the order of a library's calls."""
        found: list[str | None] = []
        waiting: dict[tuple[int | None, str], list[int]] = {}
        seen = {(one.program_id, one.instruction) for one in self.device.operations}
        for at, node in enumerate(nodes):
            program, named = program_of(node.stats), text_of(node.stats, "hlo_op") or ""
            # Older events name the launch of the graph.
            known = self._modules.module(program).instructions.get(named)
            told = known is not None and known.kind != "control"
            found.append(named if told else self._modules.of_kernel(program, node.kernel))
            seen.add((program, found[at]))
            computes = library_kernel(node.kernel)
            if found[at] is None and computes:
                waiting.setdefault((program, computes), []).append(at)
        for (program, computes), places in waiting.items():
            calls = self._modules.module(program).libraries.get(computes, ())
            unseen = [call for call in calls if (program, call) not in seen]
            firsts = [at for at in places if not _SUM_OF_SPLIT.search(nodes[at].kernel)]
            # XLA may run what is in a graph once without it.
            fitting = next((some for some in (unseen, calls) if len(some) == len(firsts)), ())
            executed = dict(zip(firsts, fitting, strict=False))
            call = None
            for at in places:
                call = found[at] = executed.get(at, call)
        return found

    def _copy(self, metadata_id: int, correlation: bytes, index: int) -> int:
        """The operation of a copy whose kernel does not name its source and destination, by the host's call."""
        call = self._copies.get(correlation)
        if call is None:
            return index
        name = self._plane.events[metadata_id].name
        kind = kind_of_event(name, None, call)
        return self.device.operation(f"{name} ({call})", None, kind=kind)
