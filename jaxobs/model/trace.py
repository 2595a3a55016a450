"""What a trace says, as plain data. Times are seconds; starts count from the beginning of the trace's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["compute", "collective", "transfer", "copy", "control", "command_buffer"]
"""What an operation is to the device: `transfer` is a copy between host and device, `copy` one on or between devices,
`control` a loop, conditional or call, whose own time is what its body leaves, `command_buffer` the launch of a
recorded graph whose operations the profiler did not see."""


@dataclass(frozen=True, slots=True)
class OperationTime:
    """One instruction of one module on one device, all its events together."""

    name: str
    """The instruction's name; of an event that names none, the event's own (a kernel, `MemcpyH2D`)."""
    instruction: str | None
    """The instruction in its module; None where the profiler did not say which one it was."""
    module: str | None
    program_id: int | None
    """Names the module within one host's trace: the key of `HostTrace.modules`."""
    category: str
    """The instruction's opcode where its module is in the trace, else what its name tells."""
    kind: Kind
    count: int
    """Events. One execution can launch several kernels, each an event."""
    executions: int
    """How often the instruction ran: for GPUs, events of one instruction next to each other, no kernel twice."""
    self_seconds: float
    """The sum of its events' durations without what ran inside: a loop's body counts for the body's operations."""
    charged_seconds: float
    """Its part of the device's busy time, where operations side by side share each moment: these add up to it."""
    fastest_seconds: float | None = None
    """The shortest execution; None where one execution is several events."""
    kernels: tuple[str, ...] = ()
    """Names of the kernels it launched, where they differ from the instruction's."""


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """One module on one device."""

    name: str
    program_id: int | None
    runs: int | None
    """How often it ran; only whole runs where runs are told apart. None where the trace does not tell, or has none."""
    runs_reason: str | None
    """What `runs` was counted from, or why it is None."""
    charged_seconds: float
    """The sum of its operations' charged seconds."""
    run_seconds: float | None = None
    """The sum over these runs, each from its first operation to the end of its last; None where none is known."""
    cut_runs: int = 0
    """Runs beside them that the trace holds in part."""
    cut_seconds: float = 0.0
    """What it holds of those, each from its first operation there to the end of its last."""


@dataclass(frozen=True, slots=True)
class StretchTime:
    """What a device did in stretches of the trace that the reader named: the steps of a loop, say."""

    seconds: float
    """Their length, those that overlap counted once."""
    busy_seconds: float
    """At least one operation ran."""
    gap_seconds: float
    """As `DeviceTrace.gap_seconds`."""
    charged_seconds: tuple[float, ...]
    """By operation, in the order of `DeviceTrace.operations`; they add up to `busy_seconds`."""
    collective_seconds: float
    """At least one collective ran, beside other operations or not."""
    runs: Mapping[int | None, tuple[int, float]] = field(default_factory=dict)
    """By program id, how many runs lie wholly inside, and their seconds; nothing where runs are not told apart."""
    edge_seconds: float = 0.0
    """Before its first operation and after its last one, at both ends no more than its longest one takes: there another
    may have been under way, which the profiler does not record if the trace began or ended meanwhile."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, as the program's step annotation marked it."""

    name: str
    number: int
    start_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """What one device did. Overlapping operations are counted once in every figure that is not an operation's."""

    name: str
    """As in the trace: `/device:GPU:0`; `/host:CPU:0` for a device that the host's threads play."""
    host: str
    platform: Literal["gpu", "tpu", "cpu"]
    kind: str | None
    """The device kind as JAX reports it, as far as the trace tells."""
    capabilities: Mapping[str, float | str]
    """Figures of the device from the trace: `memory_bandwidth` (bytes/s), `clock_rate` (kHz), `core_count`, …"""
    start_seconds: float
    span_seconds: float
    """From the first operation's start to the last one's end."""
    busy_seconds: float
    """At least one operation ran."""
    idle_seconds: float
    """`span_seconds` without `busy_seconds`."""
    gap_seconds: float
    """The part of `idle_seconds` in which a run of a module was under way: the device waited between operations. Where
    the trace does not tell one run from the next (GPUs), waits of at most 20 µs between operations of one module."""
    compute_seconds: float
    collective_seconds: float
    """At least one collective ran, beside other operations or not."""
    exposed_communication_seconds: float
    """A collective ran and nothing else computed."""
    transfer_seconds: float
    """Copies between host and device."""
    exposed_transfer_seconds: float
    """Such a copy ran and neither a computation nor a collective did."""
    operations: tuple[OperationTime, ...]
    """By charged time, the largest first."""
    modules: tuple[ModuleTime, ...]
    stretches: Mapping[str, StretchTime] = field(default_factory=dict)
    """By the name that the reader gave them."""
    notes: tuple[str, ...] = ()
    """What could not be seen or was left out, in sentences."""


@dataclass(frozen=True, slots=True)
class HostTrace:
    """What one host's profiler recorded."""

    name: str
    devices: tuple[DeviceTrace, ...]
    modules: Mapping[int, bytes]
    """Serialized HloModuleProto of each program id in the trace."""
    steps: tuple[Step, ...]
    """Step annotations of the program (`jax.profiler.StepTraceAnnotation`)."""
    versions: Mapping[str, str]
    """Of jax, jaxlib and others, as far as the trace tells."""
    start_unix_ns: int | None
    stop_unix_ns: int | None
    """Begin and end of the profiler session in wall-clock time; None where the trace is silent."""
    events: int
    """Events read."""
    notes: tuple[str, ...] = ()
    """Errors and warnings of the profiler, and what could not be read here."""
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By stretch, how often the program called each jitted function in it; a stretch without any call has none."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace of one or several hosts."""

    hosts: tuple[HostTrace, ...]
    _by_host: Mapping[str, HostTrace] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_host", {host.name: host for host in self.hosts})

    @property
    def devices(self) -> tuple[DeviceTrace, ...]:
        """All devices of all hosts."""
        return tuple(device for host in self.hosts for device in host.devices)

    def module(self, host: str, program_id: int | None) -> bytes | None:
        """The serialized module of a program id of that host, which another host may use for another module."""
        return None if program_id is None else self._by_host[host].modules.get(program_id)
