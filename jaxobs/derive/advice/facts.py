"""The facts that advice is drawn from: loops and executables whose numbers are reliable, in shares of wall time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxobs.derive.compilation import FunctionView, PersistentCacheView
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.profiler_windows.view import ProfileView
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.snapshot import main_thread_lines
from jaxobs.vocabulary.words import BUSY, IDLE

LEAST_CONFIDENCE = 0.1
"""Least confidence of a bottleneck for advice to rest on it. With many steps the confidence is the margin over the
runner-up, and 0.1 means that the largest share is a fifth larger than the next; below that, another half minute may
name another cause."""

LARGEST = math.sqrt(1.7e308)
"""Largest number that is calculated with: the product of two such numbers is still finite, and nothing that is counted
or timed comes near it."""


@dataclass(frozen=True, slots=True)
class WindowFacts:
    """Seconds of one device in a step of a loop, as profiler windows saw it."""

    busy: float
    latency: float
    """Seconds charged to `latency`, `gap` included."""
    gap: float
    """Seconds between two operations of a run."""


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop whose bottleneck is known well enough.

    `part`: its share of the wall time of all loops. `shares`: the share of each component in the loop's own wall time
    in the last window.
    """

    name: str
    part: float
    shares: Mapping[str, float]
    confidence: float
    step_seconds: float | None
    """None where the loop does other than plain steps: then its time is not that of its steps."""
    window: WindowFacts | None
    """None where there was no profiler window, or where the number of steps in it is not known."""
    is_trace: bool = False
    """Whether this is a whole trace instead of a loop."""
    host_is_ahead: bool = False
    """Whether profiler windows saw the host run ahead of the device."""
    untimed: float = 0.0
    """Share of the loop's wall time in which it is not known whether the device worked."""
    lines: tuple[str, ...] = ()
    """Lines that the main thread is at while it does not wait for the device, each with its share, largest first."""

    @property
    def title(self) -> str:
        return "the trace" if self.is_trace else f"the loop `{self.name}`"

    @property
    def subject(self) -> dict[str, str]:
        return {} if self.is_trace else {"loop": self.name}

    def share(self, component: str) -> float | None:
        """The component's share of the wall time of all loops; None where the component is not known."""
        own = self.shares.get(component)
        return None if own is None else own * self.part


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """An executable, or an operation of a trace, whose device time and cost are known.

    `seconds`, `matrix_flops`, `flops`, `bytes` and `executed` (matrix FLOPs by the type they run in) are all of one
    run, or all of everything that a trace holds.
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
class OperationFacts:
    """An operation, summed over all windows or the whole trace. `share` is its part of the device's busy time."""

    executions: float
    seconds: float
    share: float | None
    is_control: bool
    """Whether it is a loop or a conditional, whose own time is the time between the operations in it."""
    is_latency: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the conditions read.

    The fields from `functions` on are taken unchanged from the snapshot, and are empty for a trace.
    """

    loops: tuple[LoopFacts, ...] = ()
    work: tuple[WorkFacts, ...] = ()
    operations: tuple[OperationFacts, ...] = ()
    matrix_peaks: Mapping[str, float] = field(default_factory=dict)
    memory_peak: float | None = None
    memory_limit: float | None = None
    timed_unknown: float = 0.0
    """Share of the loops' wall time in executables that were timed but have no peak to be compared with."""
    age: float | None = None
    """Seconds since the process was started; None where that is not known."""
    functions: Mapping[str, FunctionView] = field(default_factory=dict)
    executables: Sequence[ExecutableView] = ()
    devices: Sequence[DeviceView] = ()
    persistent_cache: PersistentCacheView | None = None


def facts_of(view: SnapshotView) -> Facts:
    """The facts in a snapshot."""
    wall = sum(loop.wall_seconds for loop in view.loops.values())
    loops = tuple(_loops(view, wall))
    devices = view.devices.value or []
    peaks = devices[0].peaks.value.peaks if devices and devices[0].peaks.value else None
    memory = devices[0].memory.value if devices else None
    unknown = [executable for executable in view.executables if executable.bottleneck.label == "unknown"]
    return Facts(
        loops,
        tuple(_work(view, loops, wall)),
        tuple(_operations(view)),
        matrix_peaks(peaks),
        _sound(peaks.memory.value) or None if peaks and peaks.memory else None,
        (_sound(memory.limit_bytes.value) if memory else None)
        or (_sound(peaks.memory_capacity) if peaks else None)
        or None,
        sum(_sound(executable.seconds.value) or 0.0 for executable in unknown) / wall if wall else 0.0,
        _sound(view.process.seconds) or None,
        view.compilation.functions,
        view.executables,
        devices,
        view.compilation.persistent_cache,
    )


def _loops(view: SnapshotView, wall: float) -> Iterator[LoopFacts]:
    """The loops whose bottleneck is known well enough; `wall` is the wall time of all loops, s."""
    for name, loop in view.loops.items():
        verdict, shares = loop.bottleneck, loop.bottleneck.shares
        whole = math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)  # else a component is missing
        sure = whole and verdict.label != "unknown" and verdict.confidence >= LEAST_CONFIDENCE
        if not (loop.wall_seconds and sure):
            continue
        steady = shares.get("compile") == 0 and shares.get("checkpoint") == 0
        yield LoopFacts(
            name,
            loop.wall_seconds / wall,
            shares,
            verdict.confidence,
            (loop.step_seconds.value or None) if steady else None,
            _window(loop.profile.value),
            host_is_ahead=loop.profile.value is not None and loop.profile.value.host_is_ahead,
            untimed=_untimed(loop, shares),
            lines=tuple(main_thread_lines(loop.host_lines.under("host_lines"))),
        )


def _untimed(loop: LoopView, shares: Mapping[str, float]) -> float:
    unknown, idle = shares.get("unknown", 0.0), loop.device_idle.value
    if idle is None:
        return unknown
    return max(0.0, unknown - max(0.0, idle - sum(shares.get(word, 0.0) for word in IDLE)))


def _window(profile: ProfileView | None) -> WindowFacts | None:
    if profile is None or not profile.steps:
        return None
    steps, gap = profile.steps, profile.gap_seconds
    latency = profile.seconds_by_bottleneck.get("latency", 0.0)
    return WindowFacts(profile.busy_seconds / steps, latency / steps, gap / steps)


def _work(view: SnapshotView, loops: tuple[LoopFacts, ...], wall: float) -> Iterator[WorkFacts]:
    """Executables with known work. The share of each is its device seconds over the loops' `wall` time.

    It is at most the share of the wall time in which the device was busy in the loops.
    """
    busy = sum(loop.share(word) or 0.0 for loop in loops for word in BUSY)
    for executable in view.executables:
        seconds, per_run = _sound(executable.seconds.value), _sound(executable.seconds_per_run.value)
        cost, verdict = executable.cost.value.cost if executable.cost.value else None, executable.bottleneck
        if not (seconds and per_run and wall and cost and cost.exact):
            continue
        amounts = [_sound(amount) for amount in (cost.flops, cost.matrix_flops, cost.bytes)]
        if verdict.confidence < LEAST_CONFIDENCE or None in amounts:
            continue
        flops, matrix, moved = (amount or 0.0 for amount in amounts)
        yield WorkFacts(
            {"function": executable.function, "executable": executable.executable.value or ""},
            min(1.0, busy, seconds / wall),
            verdict.label,
            verdict.confidence,
            per_run,
            flops,
            matrix,
            moved,
            cost.executed_matrix_flops_by_type,
            executable.memory.value or {},
        )


def _operations(view: SnapshotView) -> Iterator[OperationFacts]:
    for row in view.operations.value or ():
        latency, control = row.bottleneck == "latency", row.kind == "control"
        yield OperationFacts(row.executions, row.seconds, row.share.value, control, latency)


def matrix_peaks(peaks: Peaks | None) -> dict[str, float]:
    """FLOP/s of the matrix unit by element type, as far as they are known."""
    known = {dtype: _sound(peak.value) for dtype, peak in peaks.matrix.items()} if peaks else {}
    return {dtype: rate for dtype, rate in known.items() if rate}


def _sound(value: float | None) -> float | None:
    """The value if it is from 0 to LARGEST, so that calculating with it stays finite; else None."""
    return value if value is not None and 0 <= value <= LARGEST else None
