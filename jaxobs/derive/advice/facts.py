"""What advice is drawn from: loops and executables whose numbers are known and sure enough, in shares of wall time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxobs.derive.advice.reading import Document, named, number, numbers, ratio, rows, text, value
from jaxobs.report.host_lines import main_thread_lines
from jaxobs.vocabulary.wall_time import BUSY, IDLE

LEAST_CONFIDENCE = 0.1
"""Of a bottleneck's confidence. With many steps it is the margin over the runner-up, and 0.1 is a largest share that is
a fifth larger than the next; below it another half minute may name another cause."""


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """What profiler windows saw of a loop in a step: seconds of one device."""

    steps: float
    """Those inside the windows."""
    busy: float
    latency: float
    """Charged to `latency`, `gap` included."""
    gap: float
    """Between two operations of a run."""


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop whose bottleneck is known well enough.

    `part`: its share of the wall time of all loops. `shares`: of its own wall time in the last window, by component.
    """

    name: str
    part: float
    shares: Mapping[str, float]
    confidence: float
    step_seconds: float | None
    window: WindowFacts | None
    """None where there was no window, or it is not known how many steps were in it."""
    is_trace: bool = False
    """A whole trace instead of a loop."""
    host_is_ahead: bool = False
    """Profiler windows saw the host run ahead of the device."""
    untimed: float = 0.0
    """Share of its wall time in which it is not known whether the device worked."""
    lines: tuple[str, ...] = ()
    """Where its main thread is while it does not wait for the device, each with its share, the largest first."""

    @property
    def title(self) -> str:
        return "the trace" if self.is_trace else f"the loop `{self.name}`"

    @property
    def subject(self) -> dict[str, str]:
        return {} if self.is_trace else {"loop": self.name}

    def share(self, component: str) -> float | None:
        """Of the wall time of all loops; None where the component is not known."""
        own = self.shares.get(component)
        return None if own is None else own * self.part


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """An executable, or an operation of a trace, whose device time and cost are known.

    `seconds`, `matrix_flops`, `flops`, `bytes` and `executed` (matrix FLOPs by the type they run in) are of the same
    work: of one run, or of all that a trace holds.
    """

    subject: Mapping[str, str]
    share: float
    label: str
    confidence: float
    seconds: float
    flops: float
    matrix_flops: float
    bytes: float
    executed: Mapping[str, float]
    memory: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the conditions look at. `document` is the snapshot's, for what needs no preparation."""

    document: Document
    loops: tuple[LoopFacts, ...]
    work: tuple[WorkFacts, ...]
    matrix_peaks: Mapping[str, float]
    memory_peak: float | None
    memory_limit: float | None
    timed_unknown: float = 0.0
    """Share of the loops' wall time in executables that were timed and could not be held against a peak."""

    @property
    def age(self) -> float | None:
        """Seconds since the process was started; None where they are not known."""
        seconds = number(self.document, "process", "seconds")
        return seconds or None


def facts_of(document: Document) -> Facts:
    """The facts in a snapshot's document."""
    loops = tuple(_loops(document))
    first = next(iter(rows(document, "devices")), {})
    limit = number(first, "memory", "limit_bytes") or number(first, "peaks", "memory_capacity")
    return Facts(
        document,
        loops,
        tuple(_work(document, loops)),
        matrix_peaks(value(first, "peaks")),
        number(first, "peaks", "memory", "value") or None,
        limit or None,
        _timed_unknown(document),
    )


def _loops(document: Document) -> list[LoopFacts]:
    every = named(document, "loops")
    total = _wall(document)
    found = []
    for name, loop in every.items():
        wall = number(loop, "wall_seconds")
        confidence = ratio(loop, "bottleneck", "confidence")
        shares = numbers(loop, "bottleneck", "shares")
        sure = confidence is not None and confidence >= LEAST_CONFIDENCE
        whole = math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)  # else one of them is missing
        if not (wall and total and sure and whole and text(loop, "bottleneck", "label") != "unknown"):
            continue
        assert confidence is not None
        found.append(
            LoopFacts(
                name,
                wall / total,
                shares,
                confidence,
                number(loop, "step_seconds") or None,
                _window(value(loop, "profile")),
                host_is_ahead=value(loop, "profile", "host_is_ahead") is True,
                untimed=_untimed(loop, shares),
                lines=tuple(main_thread_lines(loop)),
            )
        )
    return found


def _untimed(loop: Document, shares: Mapping[str, float]) -> float:
    unknown, idle = shares.get("unknown", 0.0), number(loop, "device_idle")
    if idle is None:
        return unknown
    return max(0.0, unknown - max(0.0, idle - sum(shares.get(word, 0.0) for word in IDLE)))


def _window(profile: Any) -> WindowFacts | None:
    steps, busy, gap = (number(profile, name) for name in ("steps", "busy_seconds", "gap_seconds"))
    if not steps or busy is None or gap is None:
        return None
    latency = number(profile, "seconds_by_bottleneck", "latency") or 0.0
    return WindowFacts(steps, busy / steps, latency / steps, gap / steps)


def _wall(document: Document) -> float | None:
    """Wall seconds of all loops; None where those of one are missing, as its part would be shared out to the others."""
    loops = value(document, "loops")
    every = [number(loop, "wall_seconds") for loop in loops.values()] if isinstance(loops, Mapping) else []
    return None if None in every else sum(wall or 0.0 for wall in every)


def _work(document: Document, loops: tuple[LoopFacts, ...]) -> list[WorkFacts]:
    """Device seconds over the loops' wall time, and no more than the share in which the loops' device was busy."""
    wall = _wall(document)
    busy = sum(loop.share(word) or 0.0 for loop in loops for word in BUSY)
    found = []
    for made in rows(document, "executables"):
        seconds, per_run = number(made, "seconds"), number(made, "seconds_per_run")
        function, label = text(made, "function"), text(made, "bottleneck", "label")
        confidence, cost = ratio(made, "bottleneck", "confidence"), value(made, "cost")
        if not (seconds and per_run and wall and function and label and confidence is not None):
            continue
        if confidence < LEAST_CONFIDENCE or value(cost, "exact") is not True:
            continue
        amounts = [number(cost, name) for name in ("flops", "matrix_flops", "bytes")]
        if None in amounts:
            continue
        flops, matrix, moved = (amount or 0.0 for amount in amounts)
        found.append(
            WorkFacts(
                {"function": function, "executable": text(made, "executable") or ""},
                min(1.0, busy, seconds / wall),
                label,
                confidence,
                per_run,
                flops,
                matrix,
                moved,
                numbers(cost, "executed_matrix_flops_by_type"),
                numbers(made, "memory"),
            )
        )
    return found


def _timed_unknown(document: Document) -> float:
    wall = _wall(document)
    timed = sum(
        number(made, "seconds") or 0.0
        for made in rows(document, "executables")
        if text(made, "bottleneck", "label") == "unknown"
    )
    return timed / wall if wall else 0.0


def matrix_peaks(peaks: Any) -> dict[str, float]:
    """FLOP/s of the matrix unit by element type."""
    known = {dtype: number(peak, "value") for dtype, peak in named(peaks, "matrix").items()}
    return {dtype: rate for dtype, rate in known.items() if rate}
