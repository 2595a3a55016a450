"""Joins a trace with costs and peaks: the time and work of each operation, module, named scope and device.

The times of an operation are summed over the devices that ran it. Its cost is that of its executions there, so that the
body of a loop whose trip count the compiler did not know is counted as often as it was seen to run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost, Frame, ModuleCost, OperationCost
from jaxobs.model.trace import DeviceTrace, Kind, ModuleTime, OperationTime, Trace
from jaxobs.roofline_model.bounds import Bound, bound_time, run_on, sum_of_both, total_bound
from jaxobs.roofline_model.operation_work import Work, repeated

HIDDEN = (
    "what runs inside it was not seen: its whole time is set against all work that was not seen by itself"
)
"""Reason noted for a command buffer, and for a call that XLA compiled into one function."""

REPEATED = "a call of it launches kernels again and again, so that they do not tell how often it ran"

UNTOLD = OperationCost("", "", "", "", "", 0.0, Cost())
"""Stands for an operation that is in no module."""

Modules = Callable[[str, int | None], ModuleCost | str]
"""Gives the cost of a host's module by program id, or the reason why there is none."""

Key = tuple[str, str, str]
"""Module name, fingerprint (the program id where the module is not known) and operation."""


@dataclass(slots=True)
class Operation:
    """One instruction of one module, on all devices that ran it."""

    name: str
    module: str | None
    fingerprint: str | None
    category: str
    kind: Kind
    operation_name: str
    scope: str
    source: str
    kernels: tuple[str, ...]
    count: int = 0
    executions: int = 0
    devices: int = 0
    work: Work = field(default_factory=Work)
    stack: tuple[Frame, ...] = ()
    autodiff: str = ""

    @property
    def label(self) -> str:
        """The bottleneck that its time is charged to."""
        return self.work.label(self.kind)

    @property
    def called_from(self) -> str:
        """``file:line`` of the innermost caller of its line that is another function; empty if none is known."""
        others = (frame for frame in reversed(self.stack) if frame[:2] != self.stack[-1][:2])
        return next((f"{caller.file}:{caller.line}" for caller in others), "")


@dataclass(slots=True)
class ProfiledModule:
    """One module, on all devices that ran it."""

    name: str
    cost: ModuleCost | None
    devices: int = 0
    runs: int | None = None
    run_seconds: float | None = 0.0
    """`ModuleTime.run_seconds` summed over all devices; None where a device has none."""
    usual_seconds: float | None = 0.0
    """The same of `ModuleTime.usual_seconds`."""
    runs_reason: str | None = "the trace does not tell how often it ran"
    cut_runs: int = 0
    """Further runs, of which the trace holds only a part."""
    cut_seconds: float = 0.0
    """Seconds that the trace holds of these."""
    work: Work = field(default_factory=Work)


@dataclass(slots=True)
class ProfiledDevice:
    """One device; `keys` are the keys of its operations, in the order of the trace."""

    trace: DeviceTrace
    peaks: Peaks
    keys: list[Key] = field(default_factory=list)
    work: Work = field(default_factory=Work)


@dataclass(slots=True)
class Profiled:
    """The result of joining a trace with the costs of its modules."""

    devices: list[ProfiledDevice] = field(default_factory=list)
    operations: dict[Key, Operation] = field(default_factory=dict)
    modules: dict[tuple[str, str], ProfiledModule] = field(default_factory=dict)
    dtypes: dict[str, dict[str, None]] = field(default_factory=dict)
    """Element types of the floating-point work, by device kind."""
    calls: dict[str, Counter[str]] = field(default_factory=dict)
    """By stretch, how often the program called each jitted function."""

    @property
    def busy_seconds(self) -> float:
        """Seconds in which a device was busy, summed over all devices."""
        return sum(device.trace.busy_seconds for device in self.devices)

    def only_parts(self) -> frozenset[tuple[str, str]]:
        """Modules without a whole run in the trace, which is shorter than they take: their figures mean nothing."""
        return frozenset(place for place, ran in self.modules.items() if ran.cut_runs and not ran.runs)


def join(
    trace: Trace,
    modules: Modules,
    peaks: Mapping[tuple[str, str], Peaks],
    working_sets: Mapping[str, float] | None = None,
) -> Profiled:
    """Join a trace with the costs of its modules.

    `peaks` are those of each (host, device). `working_sets` are the bytes that a run of an executable touches, by its
    fingerprint, for memory rates that were measured by size.
    """
    profiled = Profiled()
    for host in trace.hosts:
        for stretch, calls in host.calls.items():
            profiled.calls.setdefault(stretch, Counter()).update(calls)
    for device in trace.devices:
        _Device(profiled, device, peaks[device.host, device.name], modules, working_sets or {}).add()
    return profiled


class _Program:
    """One program on one device: its module, or the `reason` why that is not known, and its operations that ran."""

    def __init__(
        self, number: int | None, module: ModuleCost | str, ran: Sequence[OperationTime], runs: int | None
    ) -> None:
        self.module = None if isinstance(module, str) else module
        self.reason = module if isinstance(module, str) else None
        self.identity = self.module.fingerprint if self.module else str(number)
        self.costs = {each.name: each for each in self.module.operations} if self.module else {}
        self.without_work = {each.name: each for each in self.module.without_work} if self.module else {}
        self.runs = runs
        self.seen = {time.instruction: time for time in ran}
        self.hidden = [time for time in ran if _hides(time)]
        self.untold = any(map(_is_untold, ran))
        """Whether kernels ran that are of no instruction that could be told."""

    def counted(self, time: OperationTime, known: OperationCost) -> OperationTime:
        """The operation with as many executions as its module's runs make, where its kernels do not tell."""
        if self.module is None or not self.module.cost.exact or self.runs is None:
            return time
        executions = min(time.executions, round(self.runs * known.executions))
        return replace(time, executions=executions, may_repeat=False)

    def unseen(self, module: ModuleCost, runs: int) -> list[OperationCost]:
        """All operations of its module that were not seen separately.

        XLA compiles equal instructions to one kernel: a kernel of a CUDA graph that runs more often than its instruction
        executes stands for others of the same cost.
        """
        unseen = [operation for operation in module.operations if operation.name not in self.seen]
        for operation in module.operations:
            time = self.seen.get(operation.name)
            if time is None or not time.in_graph or not operation.executions:
                continue
            alike = [other for other in unseen if other.once == operation.once]
            for other in alike[: max(0, round(time.executions / runs / operation.executions) - 1)]:
                unseen.remove(other)
        return unseen


class _Device:
    """Joins the operations and modules of one device with their costs, and adds them to `profiled`."""

    def __init__(
        self, profiled: Profiled, device: DeviceTrace, peaks: Peaks, modules: Modules,
        working_sets: Mapping[str, float],
    ) -> None:  # fmt: skip
        self.profiled, self.device, self.peaks, self.working_sets = profiled, device, peaks, working_sets
        self.found = ProfiledDevice(device, peaks)
        ran: defaultdict[int | None, list[OperationTime]] = defaultdict(list)
        for time in device.operations:
            ran[time.program_id].append(time)
        runs = {each.program_id: each.runs for each in device.modules}
        self.programs = {
            number: _Program(number, modules(device.host, number), ran[number], runs.get(number))
            for number in {**ran, **runs}
        }
        self.ran: set[tuple[str, ...]] = set()
        """Keys of the operations and modules that ran on this device, each perhaps in several programs of one content."""

    def add(self) -> None:
        for time in self.device.operations:
            self.add_operation(time, self.programs[time.program_id])
        for ran in self.device.modules:
            self.add_module(ran, self.programs[ran.program_id])
        self.profiled.devices.append(self.found)

    def add_operation(self, time: OperationTime, program: _Program) -> None:
        modelled = program.costs.get(time.instruction) if time.instruction else None
        if time.may_repeat and modelled is not None:
            time = program.counted(time, modelled)
        if _hides(time):
            cost, bound, why = self.whole(time, program)
        else:
            once, why = (None, REPEATED) if time.may_repeat else _cost(time, program, modelled)
            bound = None if once is None else repeated(self.bound(once, program), time.executions)
            cost = None if once is None else once.scaled(time.executions)
        if cost is not None:
            cost = run_on(cost, self.peaks)
            names = cost.executed_matrix_flops_by_type or cost.vector_flops_by_type
            self.profiled.dtypes.setdefault(self.peaks.device_kind, {}).update(dict.fromkeys(names))
        key = (time.module or "", program.identity, time.name)
        operation = self.profiled.operations.get(key)
        if operation is None:
            operation = self.profiled.operations[key] = _operation(time, program, modelled)
        operation.count += time.count
        operation.executions += time.executions
        operation.devices += key not in self.ran
        self.ran.add(key)
        operation.work.add(time, cost, bound, why)
        self.found.keys.append(key)
        works = [self.found.work]
        if time.module is not None:
            place, made = (time.module, program.identity), ProfiledModule(time.module, program.module)
            works.append(self.profiled.modules.setdefault(place, made).work)
        for work in works:
            work.add(time, cost, bound, None)

    def add_module(self, ran: ModuleTime, program: _Program) -> None:
        place = (ran.name, program.identity)
        if (known := self.profiled.modules.get(place)) is not None:
            known.devices += place not in self.ran
            self.ran.add(place)
            known.cut_runs += ran.cut_runs
            known.cut_seconds += ran.cut_seconds
            known.run_seconds = sum_of_both(known.run_seconds, ran.run_seconds)
            known.usual_seconds = sum_of_both(known.usual_seconds, ran.usual_seconds)
            if ran.runs is not None:
                known.runs, known.runs_reason = (known.runs or 0) + ran.runs, ran.runs_reason
            elif known.runs is None:
                known.runs_reason = ran.runs_reason
            if program.module is not None and ran.runs and program.untold:
                cost, bound = self.unseen(program, program.module, ran.runs, ran.runs)
                for work in (known.work, self.found.work):
                    work.cost += run_on(cost, self.peaks)
                    work.bounds.append(bound)

    def bound(self, cost: Cost, program: _Program) -> Bound:
        return bound_time(cost, self.peaks, self.working_sets.get(program.identity))

    def whole(self, time: OperationTime, program: _Program) -> tuple[Cost | None, Bound | None, str | None]:
        """The work inside an operation that hides others: all operations of its module that were not seen separately.

        Where a module has several such operations, the work is divided among them by their time.
        """
        if program.module is None:
            return None, None, f"what runs inside it was not seen, and {program.reason}"
        runs = program.runs or max(sibling.count for sibling in program.hidden)
        together = sum(sibling.charged_seconds for sibling in program.hidden)
        part = runs * (time.charged_seconds / together if together else 1 / len(program.hidden))
        return *self.unseen(program, program.module, runs, part), HIDDEN

    def unseen(self, program: _Program, module: ModuleCost, runs: int, times: float) -> tuple[Cost, Bound]:
        """The work, so many times, of all operations of a module that were not seen separately."""
        unseen = program.unseen(module, runs)
        why = module.cost.inexact_reasons  # such as a loop that may be among them, and was counted once
        cost = sum((one.cost for one in unseen), Cost(exact=not why, inexact_reasons=why)).scaled(times)
        return cost, repeated(total_bound(self.bound(one.cost, program) for one in unseen), times)


def _operation(time: OperationTime, program: _Program, modelled: OperationCost | None) -> Operation:
    """The operation, of which nothing is added up yet; empty texts stand for what no module tells of it."""
    origin = modelled or program.without_work.get(time.instruction or "", UNTOLD)
    fingerprint = program.module.fingerprint if program.module else None
    return Operation(
        time.name, time.module, fingerprint, time.category, time.kind, origin.operation_name, origin.scope,
        origin.source, time.kernels, stack=origin.stack, autodiff=origin.autodiff,
    )  # fmt: skip


def _is_untold(time: OperationTime) -> bool:
    """Whether it is a kernel of a CUDA graph whose instruction could not be told."""
    return time.in_graph and time.instruction is None and time.kind == "compute"


def _hides(time: OperationTime) -> bool:
    """Whether other operations run inside this one, which the profiler may not have recorded separately."""
    return time.kind == "command_buffer" or time.category == "call"


def _cost(
    time: OperationTime, program: _Program, known: OperationCost | None
) -> tuple[Cost | None, str | None]:
    """The cost of one execution, or None and why there is none."""
    if known is not None:
        lacking = ", ".join(known.once.unmodelled)
        return known.once, f"the work of {lacking} is not known" if lacking else None
    if time.instruction is None:
        return None, "the profiler did not say which instruction it belongs to"
    if program.module is None:
        return None, program.reason
    if time.kind == "control":
        return None, "what runs inside it is counted there"
    if time.category.endswith(("-done", "-update")):
        return Cost(), "its work is counted where it starts"
    starts = time.category.endswith("-start")
    return None, "its work is that of what it starts" if starts else "its module has no such instruction"
