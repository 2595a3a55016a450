"""Reads the host's plane: operations of CPU devices on worker threads, step annotations, and calls that copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jaxobs.model.trace import Step
from jaxobs.trace.cached_programs import ForeignPrograms
from jaxobs.trace.modules import ModuleIndex, program_of, text_of
from jaxobs.trace.planes.cpu_endings import Endings
from jaxobs.trace.planes.cpu_runs import add_runs
from jaxobs.trace.planes.event_stats import EventStats, payload
from jaxobs.trace.planes.lines import Line, lines_of
from jaxobs.trace.planes.metadata import PlaneMetadata
from jaxobs.trace.protobuf_fields import Plane
from jaxobs.trace.stretches import PICOSECONDS
from jaxobs.trace.timeline import LONGEST, Timeline

_DISTINCT_STATS: Final = frozenset(["hlo_op", "hlo_module", "program_id", "device_ordinal"])
_NEVER: Final = ("$", "ThreadpoolListener::Record", "ThreadpoolListener::Stop")
"""Names of events that are no operation: those of the Python tracer, and notes of the thread pools."""

_END: Final = "end: "
_TASK: Final = "ThreadpoolListener::StartRegion"
_COPY_CALLS: Final = ("cuMemcpy", "hipMemcpy")
_CALL: Final = "PjitFunction("
"""Prefix of the events of calls of jitted functions. JAX writes two for each call, one inside the other."""
_OTHER, _OPERATION, _ENDING, _TASK_BEGINS, _STEP, _COPY, _CALLED = range(7)
_Entry = tuple[Any, ...]


class HostPlane:
    """Reads `/host:CPU`; afterwards `devices()`, `steps` and `copies` hold what was found."""

    def __init__(self, metadata: PlaneMetadata, host: str, modules: ModuleIndex, notes: list[str]) -> None:
        self.events = 0
        self.steps: list[Step] = []
        self.copies: dict[bytes, str] = {}
        """Names of host calls that copy, by their correlation id as encoded."""
        self.calls: list[tuple[int, int, int, str]] = []
        """Calls of jitted functions: line, start and negated end in picoseconds, function."""
        self._metadata, self._host, self._modules = metadata, host, modules
        self._foreign = ForeignPrograms(modules, notes)
        self._stats = EventStats(metadata, _DISTINCT_STATS)
        self._tables: dict[int, dict[tuple[int | None, ...], _Entry] | None] = {}
        self._devices: dict[int, Timeline] = {}
        self._endings: dict[int, Endings] = {}
        self._ended: dict[bytes, tuple[int, int, int]] = {}
        self._strange = 0

    def read(self, plane: Plane) -> None:
        """Read every line. Raises TraceError for corrupted bytes."""
        for number, line in enumerate(lines_of(plane)):
            marks = {ordinal: len(device.intervals) for ordinal, device in self._devices.items()}
            self._read_line(number, line)
            self.events += line.count
            for ordinal, device in self._devices.items():
                self._endings[ordinal].add_line(number, marks.get(ordinal, 0), len(device.intervals))

    def devices(self) -> list[Timeline]:
        """The devices whose operations were found, with each operation's time until it ended on whichever thread."""
        for ordinal, device in self._devices.items():
            device.put_right(self._foreign)
            containers = {at for at, one in enumerate(device.operations) if one.kind == "control"}
            endings, users = self._endings[ordinal], device.users()
            device.intervals = endings.applied(device.intervals, users, containers, self._ended)
            add_runs(device, endings)
        if self._strange and self._devices:
            next(iter(self._devices.values())).wrong_times += self._strange
        return [self._devices[ordinal] for ordinal in sorted(self._devices)]

    def _read_line(self, number: int, line: Line) -> None:  # noqa: C901, PLR0912  # calls would double its time
        tables, code, ended = self._tables, self._stats.code, self._ended
        base, task_start = line.base, 0
        for event in line:
            metadata_id = event.metadata_id
            try:
                table = tables[metadata_id]
            except KeyError:
                table = tables[metadata_id] = self._new_table(metadata_id)
            if table is None:
                continue
            stats = event.stats[:]
            entry = table.get(tuple(map(code, stats)))
            if entry is None:
                key = self._stats.learn(stats)
                entry = table.get(key)
                if entry is None:
                    entry = table[key] = self._classify(metadata_id, stats)
            what = entry[0]
            if what == _OTHER:
                continue
            start = base + event.offset_ps
            duration = event.duration_ps
            if duration < 0 or duration > LONGEST or start < 0:
                self._strange += 1
            elif what == _OPERATION:
                _, add, index, add_ending, flow_at, run_at, add_run = entry
                run = stats[run_at] if run_at >= 0 else b""
                add((start, start + duration, index))
                add_ending((payload(stats[flow_at]) if flow_at >= 0 else None, run))
                add_run(run)
            elif what == _ENDING:
                ended[payload(stats[entry[1]])] = (start, number, task_start)
            elif what == _TASK_BEGINS:
                task_start = start
            elif what == _STEP:
                self._add_step(metadata_id, stats, start, duration)
            elif what == _CALLED:
                self.calls.append((number, start, -start - duration, entry[1]))
            else:
                self.copies[payload(stats[entry[1]])] = entry[2]

    def _new_table(self, metadata_id: int) -> dict[tuple[int | None, ...], _Entry] | None:
        known = self._metadata.events.get(metadata_id)
        return None if known is None or known.name.startswith(_NEVER) else {}

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
        ordinal, operation, module = (
            values.get("device_ordinal"),
            text_of(values, "hlo_op"),
            text_of(values, "hlo_module"),
        )
        # Launches of kernels on the host have an hlo_op too, and no device_ordinal.
        if operation and isinstance(ordinal, int):
            program = self._foreign.program_id(program_of(values), module)
            device = self._device(ordinal)
            index = device.operation(name, program, instruction=operation, module=module)
            add_ending: Callable[[tuple[bytes | None, bytes]], None] = self._endings[ordinal].flows.append
            run_at = position(stats, "run_id")
            add_run = device.runs.setdefault(program, set()).add if run_at >= 0 else _nothing
            add = device.intervals.append
            return (_OPERATION, add, index, add_ending, position(stats, "_p"), run_at, add_run)
        if name.startswith(_END):
            at = position(stats, "_c")
            return (_ENDING, at) if at >= 0 else (_OTHER,)
        return (_STEP,) if "step_num" in values else (_OTHER,)

    def _device(self, ordinal: int) -> Timeline:
        if ordinal not in self._devices:
            name = f"{self._metadata.name}:{ordinal}"
            self._devices[ordinal] = Timeline(name, self._host, "cpu", self._modules)
            self._endings[ordinal] = Endings()
        return self._devices[ordinal]

    def _add_step(self, metadata_id: int, stats: list[bytes], start: int, duration: int) -> None:
        number = self._stats.read(stats).get("step_num")
        if isinstance(number, int):
            name = self._metadata.events[metadata_id].name
            self.steps.append(Step(name, number, start / PICOSECONDS, duration / PICOSECONDS))


def _nothing(_: bytes) -> None:
    """Do nothing, in place of adding a run id, for operations without one."""
