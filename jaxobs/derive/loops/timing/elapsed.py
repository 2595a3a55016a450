"""How many seconds a window's steps took, on the host and on the device together."""

from __future__ import annotations

from jaxobs.derive.loops.timing.device_time import LEAST_FIT, LoopDeviceTime
from jaxobs.derive.loops.timing.in_flight import IN_FLIGHT
from jaxobs.derive.loops.timing.left_loop import RUN_AHEAD
from jaxobs.derive.loops.timing.step_times import StepTimes
from jaxobs.derive.loops.utilization import Work
from jaxobs.derive.loops.wall_time.window import Slice

DISPATCHED_ALONE = 1.0
"""Seconds of a loop below which its steps may only have been dispatched, if their runs are known to take far longer: of a
loop that was left it is not seen at first when the device was done."""


def elapsed_seconds(
    settled: Slice, did: Work, behind_before: float, times: StepTimes, device_time: LoopDeviceTime
) -> float:
    """Seconds that the `settled` steps took: of the loop's wall time, and those that the device has yet to work for them.

    `did`: what their runs did. `behind_before`: seconds of work that the device still had before it when the first of
    them began. 0 where it is not known how far the device is behind.
    """
    steps, wall = settled.steps, settled.wall
    least = times.least_seconds(steps)
    if steps <= 0:
        return 0.0
    pace = times.completed_pace()
    if pace is not None and least is not None:
        # Some work of the window is done after it, and in it some that was dispatched before: half of it at most.
        return max(least, wall + device_time.behind(pace) - min(wall / 2, behind_before))
    worked = did.device_seconds
    nothing_seen = did.untimed_runs > 0 and worked <= 0 and not least and not times.host_seems_to_wait
    # Compiles leave the device time for what was dispatched before them.
    few = RUN_AHEAD * steps < IN_FLIGHT and settled.compiling < wall / 2
    if least is None or (nothing_seen and few):
        return 0.0
    elapsed = max(wall, least, min(worked, wall + device_time.behind()))
    return elapsed if elapsed >= min(DISPATCHED_ALONE, LEAST_FIT * worked) else 0.0
