"""Where the process's time went, as far as its loops show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxobs.derive.loops.wall_time.stalls import Stalls

OF_LOOPS = ("productive", "input", "checkpoint", "stalled", "other")
"""Categories whose seconds come from loops."""

NOT_PRODUCTIVE = ("compile", "input", "checkpoint")


class LoopTime(NamedTuple):
    """The time of one loop so far: wall seconds, seconds by component, and stalls.

    `saves_are_phases`: the loop's checkpoints are phases of the run as well, as in a loop that nobody marked; they are
    not counted a second time here.
    """

    wall: float
    components: Mapping[str, float]
    stalls: Stalls
    saves_are_phases: bool = False


def seconds_by_category(loops: Mapping[str, LoopTime]) -> dict[str, float]:
    """Seconds of each category in `OF_LOOPS`, summed over all loops."""
    known = dict.fromkeys(OF_LOOPS, 0.0)
    for loop in loops.values():
        parts = {word: loop.components[word] for word in NOT_PRODUCTIVE}
        beyond = loop.stalls.seconds + loop.stalls.busy_seconds
        known["productive"] += max(0.0, loop.wall - sum(parts.values()) - beyond)
        known["input"] += parts["input"]
        known["checkpoint"] += 0.0 if loop.saves_are_phases else parts["checkpoint"]
        known["stalled"] += loop.stalls.seconds
        known["other"] += loop.stalls.busy_seconds
    return known
