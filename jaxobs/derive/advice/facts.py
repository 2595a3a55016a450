"""What advice is drawn from: loops, executables and operations whose figures are known, of a snapshot or of a trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.roofline_model.traced import Profiled
from jaxobs.vocabulary.words import BUSY

MIN_CONFIDENCE = 0.1
"""Least confidence of a bottleneck for advice to rest on it. With many steps the confidence is the margin over the
runner-up, and 0.1 means that the largest share is a fifth larger than the next; below that, another half minute may
name another cause."""

SMALL_OPERATION = 50e-6
"""Seconds up to which an operation is small: five times the 2 to 10 µs that launching a kernel takes at most."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a condition found.

    `subject` is the place it is about: `loop` or `function`, and whatever else identifies it. `saves_ratio` is a share
    of wall time; what saves only memory has `saves_bytes`, what ends the job unless it is changed has `seconds_left`.
    """

    subject: Mapping[str, str]
    sentence: str
    remedy: str
    confidence: float = 1.0
    saves_ratio: float | None = None
    saves_bytes: float | None = None
    seconds_left: float | None = None


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop whose bottleneck is known well enough, or a whole trace in place of one.

    `part`: its share of the wall time of all loops. `shares`: the share of each component in the loop's own wall time
    in the last window.
    """

    name: str
    part: float
    shares: Mapping[str, float]
    confidence: float
    launches: float | None
    """Executions of small operations in a step, as profiler windows saw them, at least, as a snapshot leaves out the
    smallest operations; 0 where none of its time was `latency`; None without a window of a known number of steps."""
    step_seconds: float | None = None
    """None if the loop does other than plain steps: then its time is not that of its steps."""
    is_trace: bool = False

    @property
    def title(self) -> str:
        return "the trace" if self.is_trace else f"the loop `{self.name}`"

    @property
    def subject(self) -> dict[str, str]:
        return {} if self.is_trace else {"loop": self.name}

    def share(self, component: str) -> float:
        """The component's share of the wall time of all loops; 0 if the component is not known."""
        return self.shares.get(component, 0.0) * self.part


@dataclass(frozen=True, slots=True)
class ObservedLoop(LoopFacts):
    """A loop of a snapshot."""

    view: LoopView = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """An executable, or an operation of a trace, whose device time and cost are known.

    `seconds` and `cost` are those of one run, or of everything that a trace holds. `share` is that of all its runs in
    the wall time of all loops.
    """

    subject: Mapping[str, str]
    share: float
    label: str
    confidence: float
    seconds: float
    cost: Cost
    memory: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What the conditions read of a snapshot, or of a trace."""

    loops: Sequence[LoopFacts] = ()
    work: Sequence[WorkFacts] = ()
    matrix_peaks: Mapping[str, float] = field(default_factory=dict)
    """FLOP/s of the matrix unit by element type, as far as they are known."""
    memory_peak: float | None = None
    ranks: int = 1
    is_training: bool = False
    """Whether a backward pass was compiled: what is advised on gradients makes sense then alone."""


@dataclass(frozen=True, slots=True)
class JobFacts(Facts):
    """The facts of a snapshot."""

    loops: Sequence[ObservedLoop] = ()
    view: SnapshotView = field(kw_only=True)


def facts_of(view: SnapshotView) -> JobFacts:
    """The facts in a snapshot."""
    wall = sum(loop.wall_seconds for loop in view.loops.values())
    loops = list(_loops(view, wall))
    devices = view.devices.value
    return JobFacts(
        loops,
        list(_work(view, loops, wall)),
        *_peaks(devices[0].peaks.value.peaks if devices and devices[0].peaks.value else None),
        view.identity.get("process_count") or 1,
        any(each.executable.value in view.with_gradients for each in view.executables),
        view=view,
    )


def _loops(view: SnapshotView, wall: float) -> Iterator[ObservedLoop]:
    """The loops whose bottleneck is known well enough; `wall` is the wall time of all loops, s."""
    often = _small_operations_a_second(
        (row["executions"], row["seconds"], row["share"], row["kind"]) for row in view.operations.value or ()
    )
    for name, loop in view.loops.items():
        verdict, shares = loop.bottleneck, loop.bottleneck.shares
        is_whole = math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)  # else a component is missing
        if not (loop.wall_seconds and is_whole and verdict.label != "unknown"):
            continue
        if verdict.confidence < MIN_CONFIDENCE:
            continue
        is_steady = shares.get("compile") == 0 and shares.get("checkpoint") == 0
        profile, launches = loop.profile.value, None
        if profile is not None and profile.steps:
            launches = (
                often * profile.busy_seconds / profile.steps if profile.labels().get("latency") else 0.0
            )
        step_seconds = loop.step_seconds.value or None if is_steady else None
        part = loop.wall_seconds / wall
        yield ObservedLoop(name, part, shares, verdict.confidence, launches, step_seconds, view=loop)


def _work(view: SnapshotView, loops: Sequence[LoopFacts], wall: float) -> Iterator[WorkFacts]:
    """Executables with known work. The share of each is its device seconds over the loops' `wall` time.

    It is at most the share of the wall time in which the device was busy in the loops.
    """
    busy = sum(loop.share(word) for loop in loops for word in BUSY)
    for executable in view.executables:
        seconds, per_run = executable.seconds.value, executable.seconds_per_run.value
        cost, verdict = executable.cost.value, executable.bottleneck
        if not (seconds and per_run and wall and cost and cost.exact):
            continue
        yield WorkFacts(
            {"function": executable.function, "executable": executable.executable.value or ""},
            min(1.0, busy, seconds / wall),
            verdict.label,
            verdict.confidence,
            per_run,
            cost,
            executable.memory.value or {},
        )


def facts_of_trace(profiled: Profiled, steps: int) -> Facts:
    """The facts in a trace, empty if too little is known. `steps`: how many steps the program marked in it.

    The whole trace stands for a loop, and its operations for the loop's work. Shares are of the time between each
    device's first and last event, summed over devices. The confidence is the share of busy time whose work is modelled.
    """
    devices, busy = profiled.devices, profiled.busy_seconds
    span = sum(device.trace.span_seconds for device in devices)
    confidence = 1 - sum(device.work.unmodelled_seconds for device in devices) / busy if busy else 0.0
    if not span or confidence < MIN_CONFIDENCE:
        return Facts()
    peaks = devices[0].peaks if len({device.trace.kind for device in devices}) == 1 else None
    gap = sum(device.trace.gap_seconds for device in devices)
    exposed = sum(device.trace.exposed_communication_seconds for device in devices)
    operations = profiled.operations.values()
    latency = gap + sum(each.work.seconds for each in operations if each.label == "latency")
    shares = {"latency": latency / span, "communication": exposed / span}
    shares = {word: share for word, share in shares.items() if share <= 1}
    often = _small_operations_a_second(
        (each.executions, each.work.seconds, each.work.seconds / busy, each.kind) for each in operations
    )
    launches = (often * busy / steps / len(devices) if latency else 0.0) if steps else None
    return Facts(
        [LoopFacts("trace", 1.0, shares, confidence, launches, is_trace=True)],
        [
            WorkFacts(
                {"function": each.module or "", "operation": each.name},
                min(1.0, each.work.seconds / span),
                each.label,
                confidence,
                each.work.seconds,
                each.work.cost,
            )
            for each in operations
            if each.work.seconds and each.work.bounds and each.work.cost.exact
        ],
        *_peaks(peaks),
    )


def _peaks(peaks: Peaks | None) -> tuple[dict[str, float], float | None]:
    """FLOP/s of the matrix unit by element type, and the memory's peak, as far as they are known."""
    matrix = {dtype: peak.value for dtype, peak in peaks.matrix.items()} if peaks else {}
    return matrix, peaks.memory.value if peaks and peaks.memory else None


def _small_operations_a_second(operations: Iterable[tuple[float, float, float | None, str]]) -> float:
    """Executions of small operations in a second of busy time, over all loops and windows; 0 if not known.

    Given are of each operation its executions, seconds, share of the busy time, and kind.
    """
    busy = small = 0.0
    for count, seconds, share, kind in operations:
        if not count or not seconds:
            continue
        busy = max(busy, seconds / share if share else 0.0)
        # The own time of loops and conditionals is the time between the operations in them.
        if kind != "control" and seconds / count <= SMALL_OPERATION:
            small += count
    return small / busy if busy else 0.0
