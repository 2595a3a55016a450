"""Reads a TPU core's plane: lines of operations, asynchronous operations and modules.

An operation's event metadata describes it (names of lines and statistics: openxla/xla,
``xla/tsl/profiler/utils/xplane_schema.cc``). Times of the device's own clock take precedence over the host's.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Any, Final

from jaxobs.model.trace import Kind
from jaxobs.trace.attribution import Interval
from jaxobs.trace.modules import ModuleIndex, kind_of_opcode, program_of, text_of, unsigned
from jaxobs.trace.planes import Line, Plane, lines_of
from jaxobs.trace.timeline import MAX_DURATION, Timeline

_OPERATIONS: Final = "XLA Ops"
_ASYNCHRONOUS: Final = "Async XLA Ops"
_MODULES: Final = "XLA Modules"
_RUNTIME: Final = "XLA TraceMe"
_IN_ORDER: Final = (_MODULES, _OPERATIONS, _ASYNCHRONOUS, _RUNTIME)
"""Names of lines in the order in which they are read: an operation's module must have its name by then."""

_INSTRUCTION: Final = re.compile(r"%?([^ =]+)")
_BARRIER: Final = "barrier-cores"
"""The wait of a run with collectives, at its beginning, until all cores have come that take part."""
_HOST_MEMORY: Final = "S(5)"
"""The memory space of the host, in a shape's layout: openxla/xla, ``Layout::kHostMemorySpace``."""
_MODULE: Final = re.compile(r"(.*?)\((\d+)\)\Z", re.DOTALL)


def _pairs(device: Timeline) -> Iterator[Interval]:
    """What was in flight by the events of its start and end, where the device has no line of asynchronous operations."""
    begun: dict[tuple[int | None, str], int] = {}
    for start, end, index in sorted(device.intervals):
        operation = device.operations[index]
        name = operation.instruction or ""
        if "-start" in name:
            begun[operation.program_id, name.replace("-start", "-done")] = start
        elif "-done" in name and (operation.program_id, name) in begun:
            yield begun.pop((operation.program_id, name)), end, index


class TpuPlane:
    """Reads a TPU core, the `device`. Raises TraceError for corrupted bytes."""

    def __init__(self, plane: Plane, host: str, modules: ModuleIndex) -> None:
        self._plane = plane
        self.device = Timeline(plane.name, host, "tpu", modules)
        self.device.capabilities = plane.stats
        self._operation = cache(self._classify)
        self._module_names: dict[int, str] = {}
        self._ahead: dict[int, int] = {}
        """By the start and the end of an event on the host's clock, how far the device's own clock is ahead."""
        read = {_MODULES: self._read_modules, _RUNTIME: self._read_barriers}
        lines = (line for line in lines_of(plane) if line.name in _IN_ORDER)
        for line in sorted(lines, key=lambda line: _IN_ORDER.index(line.name)):
            read.get(line.name, self._read_operations)(line)
        self._put_runs_right()
        self.device.in_flight = self.device.in_flight or list(_pairs(self.device))

    def _read_modules(self, line: Line) -> None:
        for event in line.events:
            known = self._plane.events.get(event.metadata_id)
            written = _MODULE.fullmatch(known.name) if known else None
            if written:
                program = unsigned(int(written[2]))
                self._module_names[program] = written[1]
                start, end = self._times(line.base, event)
                if 0 <= start <= end <= start + MAX_DURATION:
                    self.device.whole_runs.append((start, end, program))

    def _read_operations(self, line: Line) -> None:
        """Read a line of operations. On the synchronous one the event of a loop encloses those of its body.

        An asynchronous operation has an event there where it starts, which takes no time, and one where the core waits
        for its end. The line of its own tells how long it was in flight, whatever ran meanwhile.
        """
        found: list[tuple[int, int, int]] = []
        for event in line.events:
            start, end = self._times(line.base, event)
            if not 0 <= start <= end <= start + MAX_DURATION:
                self.device.wrong_times += 1
                continue
            found.append((start, end, self._operation(event.metadata_id)))
        if line.name == _ASYNCHRONOUS:
            self.device.in_flight.extend(found)
            return
        found.sort(key=lambda one: (one[0], -one[1], one[2]))  # outer ones first
        stack: list[tuple[int, int]] = []
        nested = self.device.nested
        for start, end, index in found:
            while stack and stack[-1][0] <= start:
                stack.pop()
            if stack and start < end <= stack[-1][0]:
                nested[stack[-1][1]] = nested.get(stack[-1][1], 0) + end - start
                self.device.operations[stack[-1][1]].kind = "control"
            stack.append((end, index))
        self.device.intervals.extend(found)

    def _read_barriers(self, line: Line) -> None:
        """Read the waits for other cores, each of the run in which it lies, on the clock of what follows it there."""
        known, runs = sorted(self._ahead), sorted(self.device.whole_runs)
        barriers = {key for key, event in self._plane.events.items() if event.name == _BARRIER}
        for event in line.events:
            start, end = self._times(line.base, event)
            before = bisect_right(runs, start, key=itemgetter(0))
            if event.metadata_id in barriers and before and start <= end <= runs[before - 1][1]:
                following = bisect_left(known, end)
                ahead = self._ahead[known[following]] if following < len(known) else 0
                program = runs[before - 1][2]
                module = self._module_names.get(program or 0)
                index = self.device.operation(_BARRIER, program, module=module, kind="collective")
                self.device.intervals.append((start + ahead, end + ahead, index))

    def _put_runs_right(self) -> None:
        """Put runs on the device's own clock, by the first and the last moment in each for which it is known.

        On the host's, which is set anew now and then, the runs of a v6e take 551 to 982 ms, on its own 784 ms each.
        """
        known, runs = sorted(self._ahead), self.device.whole_runs
        for at, (start, end, program) in enumerate(runs):
            inside = known[bisect_left(known, start) : bisect_right(known, end)]
            if inside:
                begun = start + self._ahead[inside[0]]
                runs[at] = begun, max(begun, end + self._ahead[inside[-1]]), program

    def _times(self, base: int, event: Any) -> tuple[int, int]:
        start, duration = base + event.offset_ps, event.duration_ps
        if event.stats:
            values = self._plane.read(event.stats)
            own_start, own_duration = values.get("device_offset_ps"), values.get("device_duration_ps")
            if isinstance(own_start, int) and isinstance(own_duration, int):
                own_start += base
                self._ahead[start] = own_start - start
                self._ahead[start + duration] = own_start + own_duration - start - duration
                return own_start, own_start + own_duration
        ahead = self._ahead.get(start, 0)
        return start + ahead, start + duration + self._ahead.get(start + duration, ahead)

    def _classify(self, metadata_id: int) -> int:
        """The index of the operation that events of this kind are."""
        known = self._plane.events.get(metadata_id)
        if known is None:
            return self.device.operation(f"event {metadata_id}", None)
        stats = self._plane.stats_of(known.stats)
        program = program_of(stats)
        # The name is the instruction's whole text, "%fusion.1 = …"; the display name may be that of a kind, "async-copy".
        name = known.name if known.name.startswith("%") else known.display_name or known.name
        written = _INSTRUCTION.match(name)
        category = text_of(stats, "hlo_category")
        kind: Kind | None = "collective" if kind_of_opcode(category or "") == "collective" else None
        if (category or "").startswith(("async-", "copy-")) and _HOST_MEMORY in known.name:
            kind = "transfer"
        return self.device.operation(
            known.name,
            program,
            instruction=written[1] if written else None,
            module=self._module_names.get(program) if program is not None else None,
            kind=kind,
            category=category,
        )
