"""Collects a device's operations and their intervals while its plane is read, and computes its figures."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Final, Literal

from jaxobs.model.trace import DeviceTrace, Kind, ModuleTime, OperationTime
from jaxobs.trace.attribution import (
    PICOSECONDS,
    Attribution,
    Interval,
    Run,
    attribute,
    gap_seconds,
    stretch_time,
)
from jaxobs.trace.modules import ModuleIndex, kind_of_opcode, may_repeat, opcode_in_name
from jaxobs.trace.planes import Value

MAX_DURATION: Final = 24 * 3600 * 10**12
"""A day: no operation lasts longer, so a longer one's times are corrupted."""

LONGER: Final = 2
"""Largest ratio of the part of a run that the trace's edge cuts to the longest whole run. Beyond it they are runs of
different kinds, such as of different branches, and the trace is shorter than the long ones."""

ONLY_PARTS: Final = (
    "no whole run of it is in the trace, which is shorter than it, or begins or ends in the middle of it"
)

NOTHING_TELLS: Final = "neither a run id nor an operation that each run executes once is in the trace"

_COMMAND_BUFFERS = (
    "{count} launches of command buffers hide their operations: only the whole time of each is known. To see them, "
    "run with XLA_FLAGS=--xla_gpu_enable_command_buffer= (empty)"
)

_UNTOLD = (
    "{count} kernels of CUDA graphs, such as {name}, are of no instruction that could be told: their work counts for "
    "module and device alone. Without --xla_enable_command_buffers_during_profiling=true each names its instruction"
)


@dataclass(slots=True)
class Operation:
    """An operation of a device; its figures grow while the plane is read."""

    name: str
    instruction: str | None
    module: str | None
    program_id: int | None
    category: str
    kind: Kind
    in_entry: bool = False
    executions: int = 0
    kernels: dict[str, None] = field(default_factory=dict)
    in_graph: bool = False
    count: int = 0
    """Its events; their times, and the shortest, in picoseconds."""
    total: int = 0
    fastest: int = MAX_DURATION


RunsByProgram = dict[int | None, tuple[int | None, str]]
"""By program, the number of runs and what it was counted from, or None and why it is unknown."""


class Timeline:
    """The activity of one device, filled while its plane is read."""

    def __init__(
        self, name: str, host: str, platform: Literal["gpu", "tpu", "cpu"], modules: ModuleIndex
    ) -> None:
        self.name, self.host, self.platform = name, host, platform
        self.operations: list[Operation] = []
        self.intervals: list[Interval] = []
        self.in_flight: list[Interval] = []
        """Asynchronous operations from start to end, whatever ran meanwhile: they take no time of the device."""
        self.nested: dict[int, int] = {}
        """By operation, the picoseconds of other events inside its own on the same line."""
        self.whole_runs: list[Run] = []
        """The runs that the trace holds as a whole, and those that it holds in part; empty where runs are unknown."""
        self.cut_runs: list[Run] = []
        self.launches: list[Run] = []
        """The short waits between two operations of one program, in picoseconds, where runs are unknown."""
        self.launches_of_graphs: Mapping[int | None, int] = {}
        """How often the kernels of CUDA graphs ran, by program id."""
        self.capabilities: Mapping[str, Value] = {}
        self.wrong_times = 0
        """Events that were left out for their times."""
        self._modules = modules
        self._indices: dict[tuple[str | None, int | None, str], int] = {}

    def operation(
        self,
        name: str,
        program_id: int | None,
        *,
        instruction: str | None = None,
        module: str | None = None,
        kind: Kind | None = None,
        category: str | None = None,
    ) -> int:
        """The index of an operation, added if new. `kind` and `category` apply where its module does not give them."""
        key = (instruction, program_id, "" if instruction else name)
        index = self._indices.get(key)
        if index is None:
            known = self._modules.module(program_id)
            found = known.instructions.get(instruction) if instruction else None
            opcode = found.opcode if found else opcode_in_name(instruction or "")
            own = found.kind if found else None
            if kind == "transfer" and own in {"copy", "compute"}:
                own = kind  # the event names both ends of a copy, one of which is the host
            self.operations.append(
                Operation(
                    name=instruction or name,
                    instruction=instruction,
                    module=known.name or module,
                    program_id=program_id,
                    category=(found and found.opcode) or category or opcode or "kernel",
                    kind=own or kind or kind_of_opcode(opcode),
                    in_entry=found.in_entry if found else False,
                )
            )
            index = self._indices[key] = len(self.operations) - 1
        return index

    def finish(self, stretches: Mapping[str, Sequence[tuple[float, float]]]) -> DeviceTrace:
        """The figures of everything read so far; `stretches` in seconds, by a name."""
        kinds: list[Kind] = [operation.kind for operation in self.operations]
        found = attribute(self.intervals, kinds, self.in_flight)
        for start, end, index in self.intervals:
            operation, duration = self.operations[index], end - start
            operation.count += 1
            operation.total += duration
            operation.fastest = min(operation.fastest, duration)
        kind, capabilities = device_kind(self.platform, self.capabilities)
        under_way = [*self.whole_runs, *self.cut_runs] or self.launches
        runs = self._runs_by_program()
        seen = (index for index, operation in enumerate(self.operations) if operation.count)
        order = sorted(seen, key=lambda index: -found.charged[index] / PICOSECONDS)
        return DeviceTrace(
            name=self.name,
            host=self.host,
            platform=self.platform,
            kind=kind,
            capabilities=capabilities,
            span_seconds=(found.end - found.start) / PICOSECONDS,
            busy_seconds=found.busy / PICOSECONDS,
            idle_seconds=max(0.0, found.end - found.start - found.busy) / PICOSECONDS,
            gap_seconds=gap_seconds(self.intervals, under_way),
            compute_seconds=found.together[0] / PICOSECONDS,
            collective_seconds=found.together[1] / PICOSECONDS,
            exposed_communication_seconds=found.exposed[1] / PICOSECONDS,
            transfer_seconds=found.together[2] / PICOSECONDS,
            exposed_transfer_seconds=found.exposed[2] / PICOSECONDS,
            operations=tuple(self._time(index, found.charged[index], runs) for index in order),
            modules=self._module_times(found, runs),
            notes=tuple(self._notes()),
            stretches={
                name: stretch_time(
                    parts, self.intervals, under_way, kinds, order, self.whole_runs, in_flight=self.in_flight
                )
                for name, parts in stretches.items()
            },
        )

    def _notes(self) -> Iterator[str]:
        """Notes for the reader of the trace."""
        if self.wrong_times:
            yield f"{self.wrong_times} events with impossible times were left out"
        if buffers := sum(one.count for one in self.operations if one.kind == "command_buffer"):
            yield _COMMAND_BUFFERS.format(count=buffers)
        nameless = (one for one in self.operations if one.in_graph and one.instruction is None)
        if untold := [one.name for one in nameless if one.kind == "compute"]:
            yield _UNTOLD.format(count=len(untold), name=untold[0])

    def _time(self, index: int, charged: float, runs: RunsByProgram) -> OperationTime:
        """An operation's times, with its charge in picoseconds."""
        operation, kernels = self.operations[index], tuple(self.operations[index].kernels)
        own: float = operation.total - self.nested.get(index, 0)
        if operation.kind == "control" and index not in self.nested:
            own = round(charged)  # its body may run on other threads
        executions, repeats = operation.executions or operation.count, may_repeat(operation.category, kernels)
        known, _ = runs.get(operation.program_id, (None, ""))
        if operation.in_entry and known and not operation.in_graph:
            # At most one a run, whatever the sequence of kernels suggests. In a CUDA graph one kernel may also be that of
            # several alike instructions.
            executions, repeats = min(executions, known), False
        return OperationTime(
            name=operation.name,
            instruction=operation.instruction,
            module=operation.module,
            program_id=operation.program_id,
            category=operation.category,
            kind=operation.kind,
            count=operation.count,
            executions=executions,
            self_seconds=own / PICOSECONDS,
            charged_seconds=charged / PICOSECONDS,
            in_graph=operation.in_graph,
            fastest_seconds=operation.fastest / PICOSECONDS if executions == operation.count else None,
            kernels=() if kernels == (operation.name,) else kernels,
            may_repeat=repeats,
        )

    def _module_times(self, found: Attribution, runs: RunsByProgram) -> tuple[ModuleTime, ...]:
        charged: dict[tuple[int | None, str], float] = {}
        for operation, own in zip(self.operations, found.charged, strict=True):
            if operation.module is not None:
                key = (operation.program_id, operation.module)
                charged[key] = charged.get(key, 0.0) + own / PICOSECONDS
        whole, cut = _seconds_by_program(self.whole_runs), _seconds_by_program(self.cut_runs)
        times = []
        for (program_id, name), own in charged.items():
            count, why = runs[program_id]
            took, parts = whole.get(program_id, []), cut.get(program_id, [])
            if max(parts, default=0.0) > LONGER * max(took, default=0.0):
                took, count, why = [], None, ONLY_PARTS
            elif took:
                count = len(took)
            spent, usual = (sum(took), len(took) * statistics.median(took)) if took else (None, None)
            times.append(ModuleTime(name, program_id, count, why, own, spent, usual, len(parts), sum(parts)))
        times.sort(key=lambda time: -time.charged_seconds)
        return tuple(times)

    def _runs_by_program(self) -> RunsByProgram:
        entry: dict[int | None, list[int]] = {}
        for operation in self.operations:
            executions = entry.setdefault(operation.program_id, [])
            told = operation.executions and not operation.in_graph and operation.kind != "control"
            if told and operation.in_entry and not may_repeat(operation.category, tuple(operation.kernels)):
                executions.append(operation.executions)
        seen = Counter(program for *_, program in (*self.whole_runs, *self.cut_runs))
        found: RunsByProgram = {}
        for program_id, executions in entry.items():
            if seen[program_id]:
                found[program_id] = (seen[program_id], "run ids")
            elif executions:
                most = Counter(executions).most_common(1)[0][0]
                found[program_id] = (most, "executions of its operations outside loops")
            elif program_id in self.launches_of_graphs:
                found[program_id] = (self.launches_of_graphs[program_id], "launches of its CUDA graphs")
            else:
                found[program_id] = None, NOTHING_TELLS
        return found


def _seconds_by_program(runs: Iterable[Run]) -> dict[int | None, list[float]]:
    found: dict[int | None, list[float]] = {}
    for start, end, program_id in runs:
        found.setdefault(program_id, []).append((end - start) / PICOSECONDS)
    return found


_NAMES: Final = ("device_type_string", "gpu_device_name")
_GIBIBYTE: Final = 2**30

# AMD's planes have no name. Architecture as major and minor number, compute units and memory in GiB tell these apart;
# from AMD's data sheets of each accelerator, https://www.amd.com/en/products/accelerators/instinct.html. MI350X and
# MI355X differ in the clock alone (2200 and 2400 MHz).
_AMD_FIGURES: Final = ("compute_cap_major", "compute_cap_minor", "core_count", "memory_size", "clock_rate")
_AMD: Final[Mapping[tuple[float | str | None, ...], Mapping[int | None, str]]] = {
    (9, 4, 304, 192): {None: "AMD Instinct MI300X"},
    (9, 4, 304, 256): {None: "AMD Instinct MI325X"},
    (9, 4, 228, 128): {None: "AMD Instinct MI300A"},
    (9, 5, 256, 288): {2200: "AMD Instinct MI350X", 2400: "AMD Instinct MI355X"},
}


def device_kind(platform: str, stats: Mapping[str, Value]) -> tuple[str | None, dict[str, float | str]]:
    """The device kind as JAX reports it, or None, and the plane's own figures."""
    figures: dict[str, float | str] = {
        name: value if isinstance(value, str) else float(value)
        for name, value in stats.items()
        if isinstance(value, (str, int, float))
    }
    named = next((figures[name] for name in _NAMES if figures.get(name)), None)
    if isinstance(named, str):
        return named, figures
    if platform == "cpu":
        return "cpu", figures
    return _amd(figures) if figures.get("device_vendor") == "AMD" else None, figures


def _amd(figures: Mapping[str, float | str]) -> str | None:
    major, minor, cores, memory, clock = map(figures.get, _AMD_FIGURES)
    if not isinstance(memory, float) or not isinstance(clock, (float, NoneType)):
        return None
    by_clock = _AMD.get((major, minor, cores, round(memory / _GIBIBYTE)), {})
    return by_clock.get(None) or by_clock.get(round((clock or 0.0) / 1000))
