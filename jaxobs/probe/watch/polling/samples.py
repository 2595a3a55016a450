"""Sampled calls, and which of the ends of a burst of them are reported."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from jaxobs.jax_compat.arrays import is_ready
from jaxobs.model.events import UNMARKED
from jaxobs.probe.watch.polling.output_leaf import OutputLeaf

SURE_SPACING = 0.05
"""Share of the time between a burst's first and last end by which both may be off together for the first to count."""


@dataclass(slots=True)
class Sample:
    """One sampled call. `idle_before`: the sampled call before it had finished when this one began.

    `between`: calls of the same executable made between the two. `behind_unseen`: another call was made between them
    whose end was not seen, so this one may have waited for it.
    `leaf`: an output, or a weak reference to it; None once it was seen to be ready.
    `seen_ready`: when the training thread saw the leaf to be ready, before its next call.
    `ready`: the estimated end of the run, off by at most `uncertainty`. All times are in nanoseconds, by `now()`.
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
    between: int = 0
    seen_ready: int | None = None
    ready: int | None = None
    uncertainty: int = 0


def is_done(sample: Sample) -> bool:
    """Whether the device is done with the sample. Raises RuntimeError if its leaf died before that was seen."""
    leaf = sample.leaf
    try:
        return leaf is None or is_ready(leaf)
    except RuntimeError:
        if sample.seen_ready is None:
            raise
        return True


def is_kept(sample: Sample) -> bool:
    """Whether the sample keeps an output alive."""
    return sample.leaf is not None and type(sample.leaf) is not weakref.ref


def is_lost(sample: Sample) -> bool:
    """Whether the end of the sample can no longer be seen: the next call has taken its leaf, or is about to release it.

    Called on the training thread, which has just made the next call.
    """
    if sample.ready is not None or sample.seen_ready is not None:
        return False
    try:
        return not is_ready(sample.leaf) and type(sample.leaf) is weakref.ref
    except RuntimeError:
        return sample.ready is None


def completions_of(done: list[Sample]) -> list[Sample]:
    """The samples of a burst whose ends are reported, in order: the last of each loop, and that of `spaced_from`.

    Outside marked loops it is not known here which function's calls are the steps: the last of each executable counts.
    """
    chosen = {(sample.loop, sample.run if sample.loop == UNMARKED else 0): sample for sample in done}
    first = spaced_from(done)
    return [sample for sample in done if sample is first or any(sample is last for last in chosen.values())]


def spaced_from(done: list[Sample]) -> Sample | None:
    """The first sample after which each is the next step of one executable, if its end and the last are known well.

    The spacing of long steps then follows from one burst, also in loops that do something else between any two bursts.
    """
    last = done[-1]
    assert last.ready is not None
    for at, first in enumerate(done[:-1]):
        assert first.ready is not None
        row = done[at:]
        alike = all((sample.run, sample.loop) == (last.run, last.loop) for sample in row)
        sure = first.uncertainty + last.uncertainty <= SURE_SPACING * (last.ready - first.ready)
        if alike and sure and last.step - first.step == sum(1 + sample.between for sample in row[1:]):
            return first
    return None
