"""Reads the host's plane: operations of CPU devices on worker threads, and calls that copy."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from operator import itemgetter
from typing import Any, Final

from jaxobs.model.intervals import Span
from jaxobs.trace.attribution import Interval
from jaxobs.trace.modules import ModuleIndex, program_of, text_of
from jaxobs.trace.planes import EventStats, Line, Plane, PlaneMetadata, lines_of, payload
from jaxobs.trace.timeline import MAX_DURATION, Run, Timeline

_DISTINCT_STATS: Final = frozenset(["hlo_op", "hlo_module", "program_id", "device_ordinal"])
_NEVER: Final = ("$", "ThreadpoolListener::Record", "ThreadpoolListener::Stop")
"""Names of events that are no operation: those of the Python tracer, and notes of the thread pools."""

_END: Final = "end: "
_TASK: Final = "ThreadpoolListener::StartRegion"
_COPY_CALLS: Final = ("cuMemcpy", "hipMemcpy")
_CALL: Final = "PjitFunction("
"""Prefix of the events of calls of jitted functions. JAX writes two for each call, one inside the other."""
_OTHER, _OPERATION, _ENDING, _TASK_BEGINS, _COPY, _CALLED = range(6)
_Entry = tuple[Any, ...]


class HostPlane:
    """Reads `/host:CPU`; afterwards `devices()`, `calls` and `copies` hold what was found."""

    def __init__(self, metadata: PlaneMetadata, host: str, modules: ModuleIndex) -> None:
        self.copies: dict[bytes, str] = {}
        """Names of host calls that copy, by their correlation id as encoded."""
        self.calls: list[tuple[int, int, int, str]] = []
        """Calls of jitted functions: line, start and negated end in picoseconds, function."""
        self._metadata, self._host, self._modules = metadata, host, modules
        self._stats = EventStats(metadata, _DISTINCT_STATS)
        self._telling = {key for key, known in metadata.events.items() if not known.name.startswith(_NEVER)}
        self._entries: dict[tuple[int | None, ...], _Entry] = {}
        """By the metadata id and the codes of the statistics."""
        self._devices: dict[int, tuple[Timeline, Endings]] = {}
        self._ended: dict[bytes, tuple[int, int, int]] = {}
        self._strange = 0

    def read(self, plane: Plane) -> None:
        """Read every line. Raises TraceError for corrupted bytes."""
        for number, line in enumerate(lines_of(plane)):
            self._read_line(number, line)

    def devices(self) -> list[Timeline]:
        """The devices whose operations were found, with each operation's time until it ended on whichever thread."""
        for device, endings in self._devices.values():
            containers = {at for at, one in enumerate(device.operations) if one.kind == "control"}
            device.intervals = endings.applied(device.intervals, containers, self._ended)
            add_runs(device, endings, self._modules)
        if self._strange and self._devices:
            next(iter(self._devices.values()))[0].wrong_times += self._strange
        return [device for _, (device, _) in sorted(self._devices.items())]

    def _read_line(self, number: int, line: Line) -> None:
        telling, entries, code, ended = self._telling, self._entries, self._stats.code, self._ended
        base, task_start = line.base, 0
        for event in line.events:
            metadata_id = event.metadata_id
            if metadata_id not in telling:
                continue
            stats = event.stats[:]
            entry = entries.get((metadata_id, *map(code, stats))) or self._find(metadata_id, stats)
            what = entry[0]
            if what == _OTHER:
                continue
            start = base + event.offset_ps
            duration = event.duration_ps
            if duration < 0 or duration > MAX_DURATION or start < 0:
                self._strange += 1
            elif what == _OPERATION:
                _, add, index, add_ending, flow_at, run_at, add_run = entry
                run = stats[run_at] if run_at >= 0 else b""
                add((start, start + duration, index))
                add_ending((payload(stats[flow_at]) if flow_at >= 0 else None, run, number))
                add_run(run)
            elif what == _ENDING:
                ended[payload(stats[entry[1]])] = (start, number, task_start)
            elif what == _TASK_BEGINS:
                task_start = start
            elif what == _CALLED:
                self.calls.append((number, start, -start - duration, entry[1]))
            else:
                self.copies[payload(stats[entry[1]])] = entry[2]

    def _find(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        key = (metadata_id, *self._stats.learn(stats))
        if key not in self._entries:
            self._entries[key] = self._classify(metadata_id, stats)
        return self._entries[key]

    def _classify(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        """Classify events with this name and these statistics: their class, and the data needed to read one."""
        name = self._metadata.events[metadata_id].name
        values = self._stats.read(stats)
        position = self._stats.position
        if name == _TASK:
            return (_TASK_BEGINS,)
        if name.startswith(_CALL):
            return (_CALLED, name[len(_CALL) :].removesuffix(")"))
        if name.startswith(_COPY_CALLS):
            at = position(stats, "correlation_id")
            return (_COPY, at, name) if at >= 0 else (_OTHER,)
        ordinal, operation = values.get("device_ordinal"), text_of(values, "hlo_op")
        # Launches of kernels on the host have an hlo_op too, and no device_ordinal.
        if operation and isinstance(ordinal, int):
            module = text_of(values, "hlo_module")
            program = self._modules.program(program_of(values), module)
            device, endings = self._device(ordinal)
            index = device.operation(name, program, instruction=operation, module=module)
            add_ending: Callable[[tuple[bytes | None, bytes, int]], None] = endings.flows.append
            run_at = position(stats, "run_id")
            add_run = (device.runs.setdefault(program, set()) if run_at >= 0 else set[object]()).add
            add = device.intervals.append
            return (_OPERATION, add, index, add_ending, position(stats, "_p"), run_at, add_run)
        if name.startswith(_END) and (at := position(stats, "_c")) >= 0:
            return (_ENDING, at)
        return (_OTHER,)

    def _device(self, ordinal: int) -> tuple[Timeline, Endings]:
        name = f"{self._metadata.name}:{ordinal}"
        made = Timeline(name, self._host, "cpu", self._modules), Endings()
        return self._devices.setdefault(ordinal, made)


# Finds when an operation of a CPU device ended, which may be on another thread than the one that started it.
#
# XLA's CPU runtime (openxla/xla, ``xla/backends/cpu/runtime/thunk_executor.cc``) writes an event while it
# starts an operation, and a second one, ``end: name``, after the operation has ended; a flow id ties the two
# together. The second one may come late: the thread that finishes an operation can go on with the next ones
# first, or lose its processor. So an operation has ended by the earliest of
#
# - its second event,
# - the next operation of its run that the same thread begins in the same task of the thread pool (a loop,
#   conditional or call is left out here: such operations may be its body's).


class Endings:
    """The data that links a device's operations to their ends, in the order of its intervals."""

    def __init__(self) -> None:
        self.flows: list[tuple[bytes | None, bytes, int]] = []
        """Flow id, run and line of each operation."""

    def applied(
        self, intervals: list[Interval], containers: Set[int], ended: Mapping[bytes, tuple[int, int, int]]
    ) -> list[Interval]:
        """The intervals, extended to the ends of their operations.

        `containers` are the operations that run others; `ended` gives time, line and start of the task of each flow's
        second event.
        """
        longer, begun = list(intervals), defaultdict[tuple[int, bytes], list[int]](list)
        for (_, run, line), (start, _, _) in sorted(
            zip(self.flows, intervals, strict=True), key=itemgetter(1)
        ):
            begun[line, run].append(start)
        for at, (flow, run, _) in enumerate(self.flows):
            known = ended.get(flow) if flow is not None else None
            if known is None:
                continue
            start, end, operation = intervals[at]
            moment, line, task_start = known
            if end < moment <= start + MAX_DURATION:
                if operation not in containers:
                    starts = begun.get((line, run), [])
                    place = bisect_left(starts, max(end, task_start))
                    moment = min([moment, *starts[place : place + 1]])
                longer[at] = (start, moment, operation)
        return longer

    def runs(self, intervals: list[Interval]) -> dict[bytes, tuple[Span, set[int]]]:
        """For each run, the span from its first operation to the end of its last, and all its operations.

        Empty where operations have no run id.
        """
        found: dict[bytes, tuple[Span, set[int]]] = {}
        for (_, run, _), (start, end, operation) in zip(self.flows, intervals, strict=True):
            if run:
                (first, last), seen = found.get(run) or ((start, end), set[int]())
                seen.add(operation)
                found[run] = (min(first, start), max(last, end)), seen
        return found


# Finds the runs of a CPU device's programs, and which of them a trace holds as a whole.
#
# The profiler records no operation that was under way when it began or ended. Of a run at the edge of a trace
# it may thus have recorded one small operation between two long ones, and the run's time would be that of
# this operation alone.


def add_runs(device: Timeline, endings: Endings, modules: ModuleIndex) -> None:
    """Add the runs to the device, in the order of their starts."""
    by_program: dict[int | None, list[tuple[Span, set[int]]]] = {}
    for span, seen in sorted(endings.runs(device.intervals).values(), key=itemgetter(0)):
        by_program.setdefault(device.operations[max(seen)].program_id, []).append((span, seen))
    for program, runs in by_program.items():
        cut = _cut(device, modules, program, [seen for _, seen in runs])
        for at, (span, _) in enumerate(runs):
            (device.cut_runs if at in cut else device.whole_runs).append(Run(span, program))
    for found in (device.cut_runs, device.whole_runs):
        found.sort(key=itemgetter(0))


def _cut(device: Timeline, modules: ModuleIndex, program: int | None, runs: list[set[int]]) -> set[int]:
    """Which of a program's runs the trace holds only in part: the first and the last, where they lack an operation.

    A whole run has the operations of one between them, or where there is none, those of the module's entry computation.
    """
    edges = {0, len(runs) - 1}
    if len(runs) > 2:  # one lies between the first and the last
        between_them = runs[len(runs) // 2]
        entered = {at for at in between_them if device.operations[at].in_entry}
        wanted = entered or between_them  # all of them where the module is unknown
        return {at for at in edges if not wanted <= runs[at]}
    entry = modules.entry(program)
    if entry is None:
        return edges
    return {at for at in edges if not entry <= {device.operations[one].instruction or "" for one in runs[at]}}
