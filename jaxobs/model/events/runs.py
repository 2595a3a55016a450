"""Calls of watched functions, and runs of executables."""

from __future__ import annotations

from typing import NamedTuple


class FunctionWatched(NamedTuple):
    """`number` (negative) stands for this watched function where it is not visible which executable ran, and why."""

    number: int
    function: str
    reason: str
    time: int


class FunctionCalled(NamedTuple):
    """Calls of a watched function outside any step, since the last such event. `run` as in `StepEnded.runs`."""

    run: int
    calls: int
    time: int


class ExecutableRan(NamedTuple):
    """One sampled run: `seconds` of device time, known to within `uncertainty` seconds."""

    run: int
    seconds: float
    uncertainty: float
    time: int


class RunUnderWay(NamedTuple):
    """A run that was dispatched at `start` had not ended at `time`. Told once a second of those that last."""

    run: int
    start: int
    time: int
