"""What the runs in a stretch of time come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.derive.executables.registry import Executables
from jaxobs.model.cost import Cost


@dataclass(slots=True)
class Work:
    """What the runs of a window come to, by what is known of their executables now; on one device.

    `device_seconds` is the time that the runs take by their samples, which may be some per cent off.
    """

    cost: Cost = field(default_factory=Cost)
    device_seconds: float = 0.0
    uncosted_runs: int = 0
    untimed_runs: int = 0


def work_of(runs: Mapping[int, int], executables: Executables) -> Work:
    """Of watched calls by number, as in `StepEnded.runs`."""
    work = Work()
    for run, count in runs.items():
        made = executables.get(run)
        per_run = made.seconds_per_run if made is not None else None
        if made is None or made.work is None:
            work.uncosted_runs += count
        else:
            work.cost = work.cost + made.work.scaled(count)
        if per_run is None:
            work.untimed_runs += count
        else:
            work.device_seconds += per_run * count
    return work
