"""The loop in which a module does most of its work: how often a training that is one call turns in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jaxobs.cost_model.arithmetic.tally import Tally
from jaxobs.cost_model.hlo.instructions import Computation

MOST: Final = 0.5
"""Share of the module's FLOPs that its main loop has at least."""


def main_loop_trips(entry: Computation, least: Mapping[Computation, Tally]) -> int | None:
    """The known trip count of the outermost loop with most of the FLOPs; None where there is no such loop.

    ``least`` has the cost of one run of each computation.
    """
    flops = least[entry].flops
    waiting = [entry]
    while waiting:
        for instruction in waiting.pop().instructions:
            if instruction.opcode == "call":
                waiting += instruction.called[:1]
            trips = instruction.trip_count if instruction.opcode == "while" else None
            if trips is not None and trips > 1 and trips * least[instruction.called[0]].flops > MOST * flops:
                return trips
    return None
