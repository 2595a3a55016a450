"""How much work a device can have before it: what a host has dispatched that is not done."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jaxobs.model.clock import seconds
from jaxobs.model.events import StepCompleted

IN_FLIGHT = 32
"""Steps by which a host can be ahead of the device: PJRT's clients allow this many computations in flight
(`max_inflight_computations`)."""


def queued_seconds(
    per_step: float, step: int, ended: int, done: StepCompleted | None, ends: Sequence[int]
) -> float:
    """Seconds of work that the device had before it when the host ended `step`, at `ended`.

    `per_step`: the device's seconds a step. `done`: the newest completion, if any. `ends`: when the host ended the
    newest steps.
    """
    most = IN_FLIGHT * per_step
    queued = most
    # In each turn the device did as much of its queue as found room.
    for begin, end in pairwise(ends):
        queued = min(most, max(0.0, queued + per_step - seconds(end - begin)))
    if done is None:
        return queued
    return max(0.0, min(queued, max(0, step - done.step) * per_step - seconds(max(0, ended - done.time))))
