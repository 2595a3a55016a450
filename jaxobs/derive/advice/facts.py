"""What advice is drawn from: loops, executables and operations whose figures are known, of a snapshot."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.model.contents import last_name
from jaxobs.model.cost import Cost
from jaxobs.vocabulary.words import BUSY

MIN_CONFIDENCE = 0.1
"""Least confidence of a bottleneck for advice to rest on it. With many steps the confidence is the margin over the
runner-up, and 0.1 means that the largest share is a fifth larger than the next; below that, another half minute may
name another cause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a condition found.

    `subject` is the place it is about: `loop` or `function`, and whatever else identifies it. `saves_ratio` is a share
    of wall time; what saves only memory has `saves_bytes`, what ends the job unless it is changed has `seconds_left`.
    `is_once`: it is spent at each start, and not in each hour.
    """

    subject: Mapping[str, str]
    sentence: str
    remedy: str
    confidence: float = 1.0
    saves_ratio: float | None = None
    is_once: bool = False
    saves_bytes: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop whose bottleneck is known well enough.

    `part`: its share of the wall time of the loops that get on. `shares`: the share of each component in the loop's own
    wall time in the last window.
    """

    name: str
    part: float
    view: LoopView

    @property
    def shares(self) -> Mapping[str, float]:
        return self.view.bottleneck.shares

    @property
    def confidence(self) -> float:
        return self.view.bottleneck.confidence

    @property
    def subject(self) -> dict[str, str]:
        return {"loop": self.name}

    def share(self, component: str) -> float:
        """The component's share of the wall time of these loops; 0 if the component is not known."""
        return self.shares.get(component, 0.0) * self.part


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """An executable whose device time and cost are known: `share` is that of its runs in the loops' wall time of late."""

    view: ExecutableView
    share: float
    seconds: float
    """Device seconds of one run, whose work is `cost`."""
    cost: Cost

    @property
    def subject(self) -> dict[str, str]:
        return {"function": self.view.function, "executable": self.view.executable.value or ""}

    def is_bound_by(self, label: str) -> bool:
        verdict = self.view.bottleneck
        return verdict.label == label and verdict.confidence >= MIN_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions read: the view of a snapshot, and what is known well enough in it."""

    view: SnapshotView
    loops: Sequence[LoopFacts]
    work: Sequence[WorkFacts]
    matrix_peaks: Mapping[str, float]
    """FLOP/s of the matrix unit by element type, as far as they are known."""
    memory_peak: float | None
    is_training: bool
    """Whether a backward pass was compiled: what is advised on gradients makes sense then alone."""


def dearest(facts: Facts, label: str, executables: Container[str | None]) -> str:
    """Words on the line of these executables' operation with most time that is bound so; empty if it is not known."""
    for row in facts.view.operations.value or ():  # those with the most time first
        if row["bottleneck"] == label and row["executable"] in executables:
            line, caller = last_name(row["source"]), last_name(row["called_from"])
            called = f", called from {caller}" if caller and caller != line else ""
            return line and f"; its dearest operation that is bound by {label} is at {line}{called}"
    return ""


def facts_of(view: SnapshotView) -> Facts:
    """The facts in a snapshot."""
    # A loop that ended long ago has no shares of the last window, and what is saved in another is no part of its time.
    now = sum(loop.wall_seconds for loop in view.loops.values() if loop.bottleneck.shares)
    sure = {name: loop for name, loop in view.loops.items() if _is_sure(loop)}
    loops = [LoopFacts(name, loop.wall_seconds / now, loop) for name, loop in sure.items()]
    devices = view.devices.value
    peaks = devices[0].peaks.value if devices else None
    return Facts(
        view,
        loops,
        list(_work(view, loops)),
        {dtype: peak.value for dtype, peak in peaks.matrix.items()} if peaks else {},
        peaks.memory.value if peaks and peaks.memory else None,
        any(each.executable.value in view.with_gradients for each in view.executables),
    )


def _is_sure(loop: LoopView) -> bool:
    """Whether the loop's bottleneck is known well enough, and each component of its time."""
    verdict = loop.bottleneck
    is_whole = math.isclose(sum(verdict.shares.values()), 1.0, abs_tol=1e-6)  # else a component is missing
    is_sure = verdict.label != "unknown" and verdict.confidence >= MIN_CONFIDENCE
    return loop.wall_seconds > 0 and is_whole and is_sure


def _work(view: SnapshotView, loops: Sequence[LoopFacts]) -> Iterator[WorkFacts]:
    """Executables with known work that ran of late: a job may have gone over to others hours ago.

    The share of each is at most that of the wall time in which the device was busy in the loops.
    """
    busy = sum(loop.share(word) for loop in loops for word in BUSY)
    for executable in view.executables:
        share = view.device_shares.get(executable.labels)
        per_run, cost = executable.seconds_per_run.value, executable.cost.value
        if share and per_run and cost and cost.exact:
            yield WorkFacts(executable, min(1.0, busy, share), per_run, cost)
