"""A profiler trace as plain data. Times are seconds; starts count from the beginning of the trace's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["compute", "collective", "transfer", "copy", "control", "command_buffer"]
"""The kind of an operation: `transfer` is a copy between host and device, `copy` one on or between devices, `control` a
loop, conditional or call, whose own time is that in which its body does not run, `command_buffer` the launch of a
recorded graph whose operations the profiler did not see."""


@dataclass(frozen=True, slots=True)
class OperationTime:
    """One instruction of one module on one device, all its events together."""

    name: str
    """The instruction's name, or that of the event (a kernel, `MemcpyH2D`) where it names no instruction."""
    instruction: str | None
    """The instruction in its module; None where the profiler did not say which one it was."""
    module: str | None
    program_id: int | None
    """The id of the module within one host's trace: the key of `HostTrace.modules`."""
    category: str
    """The instruction's opcode where its module is in the trace, else derived from its name."""
    kind: Kind
    count: int
    """The number of events. One execution can launch several kernels, each an event."""
    executions: int
    """The number of executions: on GPUs, consecutive events of one instruction without a repeated kernel are one."""
    self_seconds: float
    """The sum of its events' durations without operations inside them: a loop's body counts for its own operations."""
    charged_seconds: float
    """Its part of the device's busy time, of which parallel operations share each moment: the parts add up to it."""
    fastest_seconds: float | None = None
    """The shortest execution; None where one execution is several events."""
    in_graph: bool = False
    """Whether it ran as a kernel of a CUDA graph, whose events do not name their instruction."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels it launched, where they differ from the instruction's."""
    may_repeat: bool = False
    """Whether an execution may have launched its first kernel again, so that there were at most so many executions."""


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """The time of one module on one device."""

    name: str
    program_id: int | None
    runs: int | None
    """The number of runs; only whole ones where runs are told apart. None where it is unknown, or no run is whole."""
    runs_reason: str | None
    """What `runs` was counted from, or why it is None."""
    charged_seconds: float
    """The sum of its operations' charged seconds."""
    run_seconds: float | None = None
    """The sum over these runs, each from its first operation to the end of its last; None where none is known."""
    usual_seconds: float | None = None
    """Their number times the median of one: what they take where nothing disturbs any of them."""
    cut_runs: int = 0
    """The number of further runs that the trace holds only in part."""
    cut_seconds: float = 0.0
    """The time of the held parts of those, each from its first operation in the trace to the end of its last."""


@dataclass(frozen=True, slots=True)
class StretchTime:
    """The times of a device in stretches of the trace that the reader named: the steps of a loop, say."""

    seconds: float
    """The length of the stretches; overlaps count once."""
    busy_seconds: float
    """At least one operation ran."""
    gap_seconds: float
    """As `DeviceTrace.gap_seconds`."""
    charged_seconds: tuple[float, ...]
    """The charges of operations, in the order of `DeviceTrace.operations`; they add up to `busy_seconds`."""
    collective_seconds: float
    """At least one collective ran, beside other operations or not."""
    runs: Mapping[int | None, tuple[int, float]] = field(default_factory=dict)
    """By program id, the number of runs wholly inside and their seconds; empty where runs are not told apart."""
    edge_seconds: float = 0.0
    """The time before the first operation and after the last one, at each end at most the longest operation's. Another
    operation may have run there, which the profiler does not record if the trace began or ended during it."""


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """The times of one device. Overlapping operations count once in all figures but those of operations."""

    name: str
    """The name in the trace: `/device:GPU:0`; `/host:CPU:0` for a CPU device, which the host's threads run."""
    host: str
    platform: Literal["gpu", "tpu", "cpu"]
    kind: str | None
    """The device kind as JAX reports it; None where the trace does not show it."""
    capabilities: Mapping[str, float | str]
    """Figures of the device from the trace: `memory_bandwidth` (bytes/s), `clock_rate` (kHz), `core_count`, …"""
    span_seconds: float
    """From the first operation's start to the last one's end."""
    busy_seconds: float
    """At least one operation ran."""
    idle_seconds: float
    """`span_seconds` without `busy_seconds`."""
    gap_seconds: float
    """The part of `idle_seconds` in which a run of a module was under way, so that the device waited between
    operations. Where the trace does not tell runs apart (GPUs), waits of at most 20 µs
    between operations of one module."""
    compute_seconds: float
    collective_seconds: float
    """At least one collective ran, beside other operations or not."""
    exposed_communication_seconds: float
    """The time in which a collective ran and no computation did."""
    transfer_seconds: float
    """The time in which a copy between host and device ran."""
    exposed_transfer_seconds: float
    """The time in which such a copy ran and neither a computation nor a collective did."""
    operations: tuple[OperationTime, ...]
    """The operations, those with the largest charges first."""
    modules: tuple[ModuleTime, ...]
    stretches: Mapping[str, StretchTime] = field(default_factory=dict)
    """Times by the name that the reader gave the stretches."""
    notes: tuple[str, ...] = ()
    """What could not be seen or was left out, in sentences."""


@dataclass(frozen=True, slots=True)
class HostTrace:
    """The trace of one host's profiler."""

    name: str
    devices: tuple[DeviceTrace, ...]
    modules: Mapping[int, bytes]
    """Serialized HloModuleProto of each program id in the trace."""
    versions: Mapping[str, str]
    """Versions of jax, jaxlib and others, as far as they are in the trace."""
    notes: tuple[str, ...] = ()
    """Errors and warnings of the profiler, and what could not be read here."""
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By stretch, the number of calls of each jitted function in it; stretches without calls are absent."""
    buffers: Mapping[int, bytes] = field(default_factory=dict)
    """The BufferAssignmentProto of program ids that the trace itself has the module of; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace of one or several hosts."""

    hosts: tuple[HostTrace, ...]

    @property
    def devices(self) -> tuple[DeviceTrace, ...]:
        """All devices of all hosts."""
        return tuple(device for host in self.hosts for device in host.devices)

    def module(self, host: str, program_id: int | None) -> bytes | None:
        """The serialized module of a program id of that host, which another host may use for another module."""
        modules = next(each.modules for each in self.hosts if each.name == host)
        return None if program_id is None else modules.get(program_id)

    def buffers(self, host: str, program_id: int | None) -> bytes:
        """The buffer assignment of that module; empty where the trace has none."""
        buffers = next(each.buffers for each in self.hosts if each.name == host)
        return b"" if program_id is None else buffers.get(program_id, b"")
