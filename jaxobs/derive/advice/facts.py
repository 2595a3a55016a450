"""What advice is drawn from: loops, executables and operations whose figures are known, of a snapshot or of a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxobs.derive.compilation import FunctionView, PersistentCacheView
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.memory import ProcessMemory
from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost
from jaxobs.model.snapshot import main_thread_lines
from jaxobs.roofline_model.traced import Profiled
from jaxobs.vocabulary.activities import INPUT, MARKED_INPUT
from jaxobs.vocabulary.words import BUSY, IDLE

MIN_CONFIDENCE = 0.1
"""Least confidence of a bottleneck for advice to rest on it. With many steps the confidence is the margin over the
runner-up, and 0.1 means that the largest share is a fifth larger than the next; below that, another half minute may
name another cause."""

SMALL_OPERATION = 50e-6
"""Seconds up to which an operation is small: five times the 2 to 10 µs that launching a kernel takes at most."""

QUEUE = re.compile(r"(^|\.)get\b")
"""The call below a line that waits for a queue, such as `queue.get in grain`: another thread or process fills it."""


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
class WindowFacts:
    """Seconds of one device in a step of a loop, as profiler windows saw it; `latency` are those of that label."""

    busy: float
    latency: float


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
    step_seconds: float | None
    """None if the loop does other than plain steps: then its time is not that of its steps."""
    window: WindowFacts | None
    """None if there was no profiler window, or if the number of steps in it is not known."""
    is_trace: bool = False
    host_is_ahead: bool = False
    """Whether profiler windows saw the host run ahead of the device."""
    loads_ahead: bool = False
    """Whether the input comes out of a queue, which another thread or process fills."""
    untimed: float = 0.0
    """Share of the loop's wall time in which it is not known whether the device worked."""
    idle_in_waits: bool = False
    """Whether the device is known to be idle while the loop waits for its input."""
    input_lines: tuple[str, ...] = ()
    """Lines that the main thread is at while it waits for its input, each with its share, largest first."""
    host_lines: tuple[str, ...] = ()
    """Those that it is at otherwise, while it does not wait for the device."""

    @property
    def title(self) -> str:
        return "the trace" if self.is_trace else f"the loop `{self.name}`"

    @property
    def subject(self) -> dict[str, str]:
        return {} if self.is_trace else {"loop": self.name}

    def share(self, component: str) -> float | None:
        """The component's share of the wall time of all loops; None if the component is not known."""
        own = self.shares.get(component)
        return None if own is None else own * self.part


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
    """Everything that the conditions read. The fields from `age` on are of a snapshot, and empty for a trace."""

    loops: tuple[LoopFacts, ...] = ()
    work: tuple[WorkFacts, ...] = ()
    small_operations_a_second: float = 0.0
    """Executions of small operations in a second of busy time, over all loops and windows; 0 if not known. It is a lower
    bound, as a snapshot leaves out the smallest operations."""
    matrix_peaks: Mapping[str, float] = field(default_factory=dict)
    memory_peak: float | None = None
    age: float | None = None
    """Seconds since the process was started; None if that is not known."""
    memory_limit: float | None = None
    timed_unknown: float = 0.0
    """Share of the loops' wall time in executables that were timed but have no peak to be compared with."""
    ranks: int = 1
    is_training: bool = False
    """Whether a backward pass was compiled: what is advised on gradients makes sense then alone."""
    functions: Mapping[str, FunctionView] = field(default_factory=dict)
    executables: Sequence[ExecutableView] = ()
    devices: Sequence[DeviceView] = ()
    persistent_cache: PersistentCacheView | None = None
    process_memory: ProcessMemory | None = None
    array_lines: Sequence[str] = ()
    """Lines that made most of the bytes of live arrays, the largest first."""


def facts_of(view: SnapshotView) -> Facts:
    """The facts in a snapshot."""
    wall = sum(loop.wall_seconds for loop in view.loops.values())
    loops = tuple(_loops(view.loops, wall))
    devices = view.devices.value or []
    peaks = devices[0].peaks.value.peaks if devices and devices[0].peaks.value else None
    memory = devices[0].memory.value if devices else None
    unknown = [executable for executable in view.executables if executable.bottleneck.label == "unknown"]
    live = view.process.live_arrays.value
    return Facts(
        loops,
        tuple(_work(view, loops, wall)),
        _small_operations_a_second(
            (row["executions"], row["seconds"], row["share"], row["kind"])
            for row in view.operations.value or ()
        ),
        _matrix_peaks(peaks),
        peaks.memory.value if peaks and peaks.memory else None,
        age=view.process.seconds or None,
        memory_limit=(memory and memory.limit_bytes.value) or (peaks and peaks.memory_capacity) or None,
        timed_unknown=sum(each.seconds.value or 0.0 for each in unknown) / wall if wall else 0.0,
        ranks=view.identity.get("process_count") or 1,
        is_training=any(each.executable.value in view.with_gradients for each in view.executables),
        functions=view.compilation.functions,
        executables=view.executables,
        devices=devices,
        persistent_cache=view.compilation.persistent_cache,
        process_memory=view.process.memory.value,
        array_lines=[row["line"] for row in (live.lines.value if live else None) or () if row.get("line")],
    )


def _loops(loops: Mapping[str, LoopView], wall: float) -> Iterator[LoopFacts]:
    """The loops whose bottleneck is known well enough; `wall` is the wall time of all loops, s."""
    for name, loop in loops.items():
        verdict, shares = loop.bottleneck, loop.bottleneck.shares
        is_whole = math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6)  # else a component is missing
        if not (loop.wall_seconds and is_whole and verdict.label != "unknown"):
            continue
        if verdict.confidence < MIN_CONFIDENCE:
            continue
        is_steady = shares.get("compile") == 0 and shares.get("checkpoint") == 0
        profile = loop.profile.value
        yield LoopFacts(
            name,
            loop.wall_seconds / wall,
            shares,
            verdict.confidence,
            (loop.step_seconds.value or None) if is_steady else None,
            _window(profile),
            host_is_ahead=profile is not None and profile.host_is_ahead,
            loads_ahead=_loads_ahead(loop),
            untimed=_untimed(loop, shares),
            idle_in_waits=loop.idle_in_waits,
            input_lines=_lines(loop, of_input=True),
            host_lines=_lines(loop, of_input=False),
        )


def _untimed(loop: LoopView, shares: Mapping[str, float]) -> float:
    unknown, idle = shares.get("unknown", 0.0), loop.device_idle.value
    if idle is None:
        return unknown
    return max(0.0, unknown - max(0.0, idle - sum(shares.get(word, 0.0) for word in IDLE)))


def _rows(loop: LoopView, *, of_input: bool) -> list[Mapping[str, Any]]:
    """The lines at which the main thread was at its input, or elsewhere."""
    return [
        row for row in loop.host_lines.value or () if (row["activity"] in {INPUT, MARKED_INPUT}) == of_input
    ]


def _lines(loop: LoopView, *, of_input: bool) -> tuple[str, ...]:
    return tuple(main_thread_lines({"host_lines": _rows(loop, of_input=of_input)}))


def _loads_ahead(loop: LoopView) -> bool:
    """Whether the main thread, when it waits for input, mostly waits for a queue."""
    rows = _rows(loop, of_input=True)
    waiting: float = sum(row["share"] for row in rows)
    queued: float = sum(row["share"] for row in rows if QUEUE.search(row["waits_in"]))
    return queued > 0.5 * waiting


def _window(profile: LoopProfile | None) -> WindowFacts | None:
    if profile is None or not profile.steps:
        return None
    latency = profile.labels().get("latency", 0.0)
    return WindowFacts(profile.busy_seconds / profile.steps, latency / profile.steps)


def _work(view: SnapshotView, loops: Iterable[LoopFacts], wall: float) -> Iterator[WorkFacts]:
    """Executables with known work. The share of each is its device seconds over the loops' `wall` time.

    It is at most the share of the wall time in which the device was busy in the loops.
    """
    busy = sum(loop.share(word) or 0.0 for loop in loops for word in BUSY)
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
    each_step = steps * len(devices)
    window = WindowFacts(busy / each_step, latency / each_step) if each_step else None
    return Facts(
        (LoopFacts("trace", 1.0, shares, confidence, None, window, is_trace=True),),
        tuple(
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
        ),
        _small_operations_a_second(
            (each.executions, each.work.seconds, each.work.seconds / busy, each.kind) for each in operations
        ),
        _matrix_peaks(peaks),
        peaks.memory.value if peaks and peaks.memory else None,
    )


def _matrix_peaks(peaks: Peaks | None) -> dict[str, float]:
    """FLOP/s of the matrix unit by element type, as far as they are known."""
    return {dtype: peak.value for dtype, peak in peaks.matrix.items()} if peaks else {}


def _small_operations_a_second(operations: Iterable[tuple[float, float, float | None, str]]) -> float:
    """`Facts.small_operations_a_second`; of each operation its executions, seconds, share of the busy time, and kind."""
    busy = small = 0.0
    for count, seconds, share, kind in operations:
        if not count or not seconds:
            continue
        busy = max(busy, seconds / share if share else 0.0)
        # The own time of loops and conditionals is the time between the operations in them.
        if kind != "control" and seconds / count <= SMALL_OPERATION:
            small += count
    return small / busy if busy else 0.0
