"""Reads the host's plane: operations of CPU devices on worker threads, and calls that copy."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from operator import itemgetter
from typing import Any, Final

from jaxobs.model.intervals import Span
from jaxobs.trace.attribution import Interval
from jaxobs.trace.modules import ModuleIndex, program_of, text_of
from jaxobs.trace.planes import EventStats, Line, Plane, lines_of, payload
from jaxobs.trace.timeline import MAX_DURATION, Timeline

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
_Started = tuple[int, int, int, bytes | None, bytes, int]
"""Start of an operation and end of its first event, its index, flow, run (empty where it has none) and line."""


class HostPlane:
    """Reads `/host:CPU`; `devices()`, `calls` and `copies` hold what was found. Raises TraceError for corrupted bytes."""

    def __init__(self, plane: Plane, host: str, modules: ModuleIndex) -> None:
        self.copies: dict[bytes, str] = {}
        """Names of host calls that copy, by their correlation id as encoded."""
        self.calls: list[tuple[int, int, int, str]] = []
        """Calls of jitted functions: line, start and negated end in picoseconds, function."""
        self._plane, self._host, self._modules = plane, host, modules
        self._stats = EventStats(plane, _DISTINCT_STATS)
        self._telling = {key for key, known in plane.events.items() if not known.name.startswith(_NEVER)}
        self._devices: dict[int, tuple[Timeline, list[_Started]]] = {}
        self._ended: dict[bytes | None, tuple[int, int, int]] = {}
        self._strange = 0
        for number, line in enumerate(lines_of(plane)):
            self._read_line(number, line)

    def devices(self) -> list[Timeline]:
        """The devices whose operations were found, with each operation's time until it ended on whichever thread."""
        for device, started in self._devices.values():
            containers = {at for at, one in enumerate(device.operations) if one.kind == "control"}
            device.intervals = whole_intervals(started, containers, self._ended)
            add_runs(device, [run for *_, run, _ in started], self._modules)
        if self._strange and self._devices:
            next(iter(self._devices.values()))[0].wrong_times += self._strange
        return [device for _, (device, _) in sorted(self._devices.items())]

    def _read_line(self, number: int, line: Line) -> None:
        telling, entries, code, ended = self._telling, self._stats.entries, self._stats.code, self._ended
        base, task_start = line.base, 0
        for event in line.events:
            metadata_id = event.metadata_id
            if metadata_id not in telling:
                continue
            stats = event.stats[:]
            known = entries.get((metadata_id, *map(code, stats)))
            entry = known or self._stats.entry(metadata_id, stats, self._classify)
            what = entry[0]
            if what == _OTHER:
                continue
            start = base + event.offset_ps
            duration = event.duration_ps
            if duration < 0 or duration > MAX_DURATION or start < 0:
                self._strange += 1
            elif what == _OPERATION:
                _, add, index, flow_at, run_at = entry
                flow = payload(stats[flow_at]) if flow_at >= 0 else None
                run = stats[run_at] if run_at >= 0 else b""
                add((start, start + duration, index, flow, run, number))
            elif what == _ENDING:
                ended[payload(stats[entry[1]])] = (start, number, task_start)
            elif what == _TASK_BEGINS:
                task_start = start
            elif what == _CALLED:
                self.calls.append((number, start, -start - duration, entry[1]))
            else:
                self.copies[payload(stats[entry[1]])] = entry[2]

    def _classify(self, metadata_id: int, stats: list[bytes]) -> _Entry:
        """Classify events with this name and these statistics: their class, and the data needed to read one."""
        name = self._plane.events[metadata_id].name
        values = self._plane.read(stats)
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
            device, started = self._device(ordinal)
            index = device.operation(name, program, instruction=operation, module=module)
            return (_OPERATION, started.append, index, position(stats, "_p"), position(stats, "run_id"))
        if name.startswith(_END) and (at := position(stats, "_c")) >= 0:
            return (_ENDING, at)
        return (_OTHER,)

    def _device(self, ordinal: int) -> tuple[Timeline, list[_Started]]:
        made = Timeline(f"{self._plane.name}:{ordinal}", self._host, "cpu", self._modules)
        return self._devices.setdefault(ordinal, (made, []))


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


def whole_intervals(
    started: list[_Started], containers: Set[int], ended: Mapping[bytes | None, tuple[int, int, int]]
) -> list[Interval]:
    """The intervals of operations, each extended to its end.

    `containers` are the operations that run others; `ended` gives time, line and start of the task of each flow's
    second event.
    """
    begun = defaultdict[tuple[int, bytes], list[int]](list)
    for start, *_, run, line in sorted(started, key=itemgetter(0)):
        begun[line, run].append(start)
    found: list[Interval] = []
    for start, end, operation, flow, run, _ in started:
        moment, line, task_start = ended.get(flow, (end, 0, 0))
        if not end < moment <= start + MAX_DURATION:
            moment = end
        elif operation not in containers:
            starts = begun.get((line, run), [])
            place = bisect_left(starts, max(end, task_start))
            moment = min([moment, *starts[place : place + 1]])
        found.append((start, moment, operation))
    return found


# Finds the runs of a CPU device's programs, and which of them a trace holds as a whole.
#
# The profiler records no operation that was under way when it began or ended. Of a run at the edge of a trace
# it may thus have recorded one small operation between two long ones, and the run's time would be that of
# this operation alone.


def add_runs(device: Timeline, keys: Sequence[bytes], modules: ModuleIndex) -> None:
    """Add the runs to the device, in the order of their starts; `keys` are those of its intervals, empty for none."""
    found: dict[bytes, tuple[Span, set[int]]] = {}
    for run, (start, end, operation) in zip(keys, device.intervals, strict=True):
        if run:
            (first, last), seen = found.get(run) or ((start, end), set[int]())
            seen.add(operation)
            found[run] = (min(first, start), max(last, end)), seen
    by_program: dict[int | None, list[tuple[Span, set[int]]]] = {}
    for span, seen in sorted(found.values(), key=itemgetter(0)):
        by_program.setdefault(device.operations[max(seen)].program_id, []).append((span, seen))
    for program, runs in by_program.items():
        cut = _cut(device, modules, program, [seen for _, seen in runs])
        for at, (span, _) in enumerate(runs):
            (device.cut_runs if at in cut else device.whole_runs).append((*span, program))
    for known in (device.cut_runs, device.whole_runs):
        known.sort(key=itemgetter(0, 1))


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
