"""Calls that are looked at, and what the ends of a burst of them tell."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from jaxobs.model.events import UNMARKED
from jaxobs.probe.watch.polling.output_leaf import OutputLeaf
from jaxobs.probe.watch.polling.readiness import is_ready

SURE_SPACING = 0.05
"""Of the time between the first and the last end of a burst: what both may be off by for the steps between to be told."""


@dataclass(slots=True)
class Sample:
    """One call that is being looked at. `idle_before`: the call before it had finished when this one began.

    `behind_unseen`: between the two a call was made whose end was not seen, so it may have waited for that.
    `seen_ready`: when the training thread saw it to be ready, on its way to the next call.
    """

    way: OutputLeaf
    leaf: Any
    run: int
    loop: str
    step: int
    started: int
    ended: int
    idle_before: bool
    behind_unseen: bool = False
    seen_ready: int | None = None
    ready: int | None = None
    uncertainty: int = 0


def is_done(sample: Sample) -> bool:
    """Whether the device is done with it. Raises RuntimeError where nobody saw that before the leaf died."""
    try:
        return is_ready(sample.leaf)
    except RuntimeError:
        if sample.seen_ready is None:
            raise
        return True


def is_lost(sample: Sample) -> bool:
    """Whether nobody will see when the device is done with it: the next call has taken its leaf, or lets go of it.

    To be asked on the training thread, which has just made the next call.
    """
    if sample.ready is not None or sample.seen_ready is not None:
        return False
    try:
        return not is_ready(sample.leaf) and type(sample.leaf) is weakref.ref
    except RuntimeError:
        return sample.ready is None


def completions_of(done: list[Sample]) -> list[Sample]:
    """Choose whose ends are told of a burst: the last one of each loop, in their order.

    Of calls that are told one by one it is not known here which function's are the steps: the last of each.
    """
    chosen = {(sample.loop, sample.run if sample.loop == UNMARKED else 0): sample for sample in done}
    first = spaced_from(done)
    return [sample for sample in done if sample is first or any(sample is last for last in chosen.values())]


def spaced_from(done: list[Sample]) -> Sample | None:
    """The first sample from which on each is the next step of one executable, if both ends are known well.

    So the time of long steps is known from one burst, of a loop too in which something else lies between any two bursts.
    """
    last = done[-1]
    assert last.ready is not None
    for at, first in enumerate(done[:-1]):
        assert first.ready is not None
        row = done[at:]
        alike = all((sample.run, sample.loop) == (last.run, last.loop) for sample in row)
        sure = first.uncertainty + last.uncertainty <= SURE_SPACING * (last.ready - first.ready)
        if alike and sure and last.step - first.step == len(row) - 1:
            return first
    return None
