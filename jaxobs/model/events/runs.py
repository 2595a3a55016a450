"""Events of calls of watched functions, and of runs of executables."""

from __future__ import annotations

from typing import NamedTuple


class FunctionWatched(NamedTuple):
    """A function is watched. Its `number` (negative) stands for runs whose executable is unknown (`reason`)."""

    number: int
    function: str
    reason: str
    time: int


class FunctionCalled(NamedTuple):
    """The calls of a watched function outside any step since the last such event. `run` as in `StepEnded.runs`."""

    run: int
    calls: int
    time: int


class ExecutableRan(NamedTuple):
    """One clean run, begun on an idle device and polled to its end: `seconds` of device time, to within `uncertainty`."""

    run: int
    seconds: float
    uncertainty: float
    time: int


class RunUnderWay(NamedTuple):
    """A run that was dispatched at `start` had not ended at `time`. Emitted once a second for a run that lasts."""

    run: int
    start: int
    time: int
