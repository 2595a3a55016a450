"""Finds the runs of a CPU device's programs, and which of them a trace holds as a whole.

The profiler records no operation that was under way when it began or ended. Of a run at the edge of a trace it may thus
have recorded one small operation between two long ones, and the run's time would be that of this operation alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.trace.planes.cpu_endings import Endings
from jaxobs.trace.timeline import Run, Timeline


def add_runs(device: Timeline, endings: Endings) -> None:
    """Add the runs to the device, in the order of their starts."""
    spans, operations = endings.runs(device.intervals)
    programs = {run: device.operations[operation].program_id for run, operation in operations.items()}
    ordered = sorted(spans, key=spans.__getitem__)
    by_program: dict[int | None, list[bytes]] = {}
    for run in ordered:
        by_program.setdefault(programs[run], []).append(run)
    seen = endings.operations_of(
        {run for runs in by_program.values() for run in (runs[0], runs[len(runs) // 2], runs[-1])},
        device.intervals,
    )
    cut: set[bytes] = set()
    for program, runs in by_program.items():
        cut |= _cut(device, program, runs, seen)
    for run in ordered:
        (device.cut_runs if run in cut else device.whole_runs).append(Run(spans[run], programs[run]))


def _cut(
    device: Timeline, program: int | None, runs: list[bytes], seen: Mapping[bytes, set[int]]
) -> set[bytes]:
    """The runs of a program that the trace holds only in part: the first and the last, where they lack an operation.

    A whole run has the operations of one between them, or where there is none, those of the module's entry computation.
    """
    if len(runs) > 2:  # one lies between the first and the last
        between_them = seen[runs[len(runs) // 2]]
        entered = {at for at in between_them if device.operations[at].in_entry}
        wanted = entered or between_them  # all of them where the module is unknown
        return {run for run in (runs[0], runs[-1]) if not wanted <= seen[run]}
    entry = device.entry_operations(program)
    if entry is None:
        return set(runs)
    return {run for run in runs if not entry <= {device.operations[at].instruction or "" for at in seen[run]}}
