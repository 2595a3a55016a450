"""The state of a job that the fold keeps, and the view of it at one moment: all that is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jaxobs.derive.compile_times import CompileTimes
from jaxobs.derive.compiles import CompilationView, Compiles
from jaxobs.derive.devices import Devices, DeviceView
from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.executables.view import ExecutableTable, ExecutableView
from jaxobs.derive.loops.goodput import RunTime
from jaxobs.derive.loops.hangs import Hangs
from jaxobs.derive.loops.loop import Loops, RoomsOfLoops
from jaxobs.derive.loops.slowdowns import Slowdowns, State
from jaxobs.derive.loops.view import LoopView, loop_view
from jaxobs.derive.memory import Memory, ProcessMemory
from jaxobs.derive.process import (
    Observation,
    ProcessView,
    RunsUnderWay,
    SourceState,
    identity_view,
)
from jaxobs.derive.profiler_windows.operations import DeviceTime, Row
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.derive.series import Series
from jaxobs.derive.spans import FinishedSpans
from jaxobs.model.clock import ClockAnchor, seconds
from jaxobs.model.events import RunUnderWay, memory_need
from jaxobs.model.figure import Figure, figure
from jaxobs.model.metrics import Catalogue, DeviceReading
from jaxobs.roofline_model.bottleneck import Verdict
from jaxobs.roofline_model.bounds import CACHE, PEAK
from jaxobs.vocabulary.units import duration

SERIES_AN_OPERATION: Final = 40
"""For each 40 of the limit on series one operation has its own: four each, so together a tenth of the limit."""

BUFFERS_SHOWN: Final = 20
"""Buffers, and places that make them, in the document of each executable whose memory is shown."""

SERIES_A_ROW: Final = 30
"""Most series that one function or one executable has, by which the limit on series is shared out among them."""


# Figures that contradict each other are withheld, with a reason that names both. The tolerances are what the figures may
# be off by, and no more. A contradiction is a fault of jaxobs, of a clock or of a peak, and the two numbers do not tell
# which of them is wrong.
CLOCKS: Final = 1.1
"""Largest ratio of sums of sampled times to the wall clock: samples are right to within a few per cent."""

PEAKS_AGAIN: Final = (
    "peaks that were measured on a busy machine are too low: `jaxobs calibrate` measures them again"
)

RESIDENT: Final = "stayed in cache"

OF_TIME: Final = ("seconds", "seconds_per_run", "achieved_flops_per_second", "efficiency")
"""Figures of an executable that rest on the time of a run; its bottleneck does too."""


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """All figures that are shown of a job at one moment. Those that contradict each other are withheld already."""

    identity: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Plain data that is shown beside `identity` and `process`, under `process` in the document."""
    process: ProcessView
    hangs: Sequence[Mapping[str, Any]]
    """The newest times that a loop stood still, the newest last."""
    slowdowns: Sequence[Mapping[str, Any]]
    """The newest times that a loop became slower for good, the newest last."""
    loops: Mapping[str, LoopView]
    compilation: CompilationView
    executables: Sequence[ExecutableView]
    """The executables with the most device time, in order, and the one that needs the most memory."""
    executables_left_out: Figure[int]
    executables_with_series: Sequence[ExecutableView]
    device_shares: Mapping[tuple[str, str], float]
    """Device seconds of executables that ran of late, by their labels, over the wall time of the loops that get on."""
    with_gradients: frozenset[str]
    """Fingerprints of the executables that have a backward pass in them."""
    operations: Figure[list[Row]]
    device_time: DeviceTime
    memory_peaks: Figure[list[Mapping[str, Any]]]
    """What the executables that need the most memory hold of it, each with its name."""
    devices: Figure[list[DeviceView]]
    sources: Mapping[str, SourceState]
    agent: Mapping[str, Any]


class Rooms:
    """The rooms of state that the fold keeps and a snapshot is made from.

    `resource` and `facts` are shown unchanged under `process`. `job` identifies this start of the job, equally on all
    its ranks; None where nothing in the environment does.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        clock: ClockAnchor,
        began: int,
        resource: Mapping[str, str],
        facts: Mapping[str, Any],
        series_limit: int,
        device_readings: tuple[DeviceReading, ...] = (),
        job: str | None = None,
    ) -> None:
        self.series = Series(catalogue, series_limit)
        self.clock = clock
        self.observation = Observation(self.series.refusals, began)
        self.began = began
        self.resource = resource
        self.facts = facts
        rows = max(1, series_limit // SERIES_A_ROW // 2)
        self.compiles = Compiles(rows)
        self.compile_times = CompileTimes()
        self.executables = Executables()
        self.executable_table = ExecutableTable(self.executables, rows)
        self.profiles = Profiles(self.executables, max(1, series_limit // SERIES_AN_OPERATION))
        self.devices = Devices(self.series.gauges, device_readings)
        self.memory = Memory()
        self.run_time = RunTime(began, facts.get("counts_begin_seconds"))
        self.spans = FinishedSpans(self.compiles, clock, resource.get("service.instance.id", ""), job)
        shared = RoomsOfLoops(self.series.refusals, self.compile_times, self.executables, self.profiles)
        self.loops = Loops(shared)
        self.under_way = RunsUnderWay()
        self.hangs = Hangs()
        self.slowdowns = Slowdowns()
        self.with_gradients: frozenset[str] = frozenset()
        """Fingerprints of the executables that have a backward pass in them."""


def snapshot_view(rooms: Rooms, now: int) -> SnapshotView:
    """The view of all rooms as of `now`. Contradicting figures are withheld."""
    loops = _loops(rooms, now)
    executables = _executables(rooms, seconds(now - rooms.began))
    table = rooms.executable_table
    compilation = rooms.compiles.view()
    _update_run_time(rooms, now)
    devices = rooms.devices.views(now, rooms.memory)
    process = _process(rooms, compilation, now)
    state = _state(devices.value or (), process)
    paces = {name: loop.pace for name, loop in rooms.loops.by_name.items()}
    rooms.slowdowns.look(paces, state, rooms.executables)
    return SnapshotView(
        identity=identity_view(rooms.resource, rooms.devices.backend),
        facts=rooms.facts,
        process=process,
        hangs=[hang.to_dict(now, rooms.began) for hang in rooms.hangs.kept],
        slowdowns=[
            each.to_dict(now, rooms.began, rooms.clock, rooms.loops.by_name[each.loop].gone)
            for each in rooms.slowdowns.kept
        ],
        loops=loops,
        compilation=compilation,
        executables=[executables[number] for number in table.listed],
        executables_left_out=table.left_out(),
        executables_with_series=[executables[number] for number in table.shown],
        device_shares=_device_shares(rooms, loops),
        with_gradients=rooms.with_gradients,
        operations=rooms.profiles.operations.operations,
        device_time=rooms.profiles.operations.device_time,
        memory_peaks=_memory_peaks(rooms.executables.largest),
        devices=devices,
        sources=rooms.observation.sources(),
        agent=rooms.observation.agent(),
    )


def _loops(rooms: Rooms, now: int) -> dict[str, LoopView]:
    views = {}
    for name, loop in rooms.loops.by_name.items():
        loop.update(now, running=rooms.under_way.at(now) is not None)
        views[name] = checked_loop(loop_view(loop))
    return views


def _device_shares(rooms: Rooms, views: Mapping[str, LoopView]) -> Mapping[tuple[str, str], float]:
    getting_on = [rooms.loops.by_name[name] for name, view in views.items() if view.bottleneck.shares]
    wall, shares = sum(loop.wall for loop in getting_on), defaultdict[tuple[str, str], float](float)
    for loop in getting_on:
        for run, spent in loop.charged.spent.items():
            executable = rooms.executables[run]
            labels = executable.function, executable.fingerprint
            shares[labels] += spent / loop.whole.wall * loop.wall / wall
    return shares


def _state(devices: Sequence[DeviceView], process: ProcessView) -> State:
    """What may change with the pace of a loop."""
    held: dict[str, ProcessMemory | None] = {f"device {each.device}": each.memory.value for each in devices}
    held["the process"] = process.memory.value
    read = {each.device: clocks for each in devices if (clocks := each.clocks.value) is not None}
    ratios = {device: each.clock_ratio.value for device, each in read.items()}
    throttled = ((device, why) for device, each in read.items() for why in each.throttle_reasons.value or ())
    return State(
        {device: ratio for device, ratio in ratios.items() if ratio is not None},
        frozenset(throttled),
        {name: used for name, known in held.items() if known and (used := known.in_use_bytes.value)},
    )


def _executables(rooms: Rooms, age: float) -> dict[int, ExecutableView]:
    """Views, by number, of the executables that are listed or have series; `age` is the age of the process, s."""
    table = rooms.executable_table
    table.update()
    backend = rooms.devices.backend
    # Devices may run an executable side by side, each by itself, so the time for runs is that of all devices.
    room = age * max(1, len(backend.devices) if backend else 0)
    return {number: checked_executable(view, room) for number, view in table.views.items()}


def end_run_time(rooms: Rooms, now: int, last: RunUnderWay | None) -> Figure[float]:
    """Charge all time of a job that is over, and return its goodput. `last`: a run whose end was not seen."""
    rooms.run_time.job_ended()
    for loop in rooms.loops.by_name.values():
        loop.update(now, final=True)
    if last is not None:
        rooms.run_time.update(last.time, rooms.loops.by_name, None, last.start)
    _update_run_time(rooms, now)
    return rooms.run_time.goodput(rooms.loops.inferred.turned_away)


def _update_run_time(rooms: Rooms, now: int) -> None:
    running = rooms.under_way.at(now)
    began, undecided = running.start if running else None, rooms.loops.inferred.undecided_since
    rooms.run_time.update(
        now, rooms.loops.by_name, rooms.compile_times.in_progress_since(), began, undecided,
        stands_still=rooms.hangs.now is not None,
    )  # fmt: skip


def _process(rooms: Rooms, compilation: CompilationView, now: int) -> ProcessView:
    return ProcessView(
        seconds=seconds(now - rooms.began),
        run_seconds=dict(rooms.run_time.seconds),
        phase_seconds=dict(rooms.run_time.phase_seconds),
        goodput=rooms.run_time.goodput(rooms.loops.inferred.turned_away),
        running=rooms.under_way.view(now, rooms.executables.function_of),
        compiling=rooms.compile_times.in_progress(now),
        compiling_phases=rooms.compile_times.phases_in_progress(),
        phases=rooms.run_time.phases(now),
        persistent_cache=compilation.persistent_cache,
        address=figure(rooms.observation.address or None, "no exporter serves metrics"),
        host_lines=rooms.loops.outside.rows(),
        host_calls=rooms.loops.outside.calls(),
        host_samples=rooms.loops.outside.samples,
        memory=rooms.memory.process(now),
        peak_executable=_peak_executable(rooms.executables.largest),
        live_arrays=rooms.memory.live_arrays(now),
    )


def _peak_executable(largest: Sequence[Executable]) -> Figure[Mapping[str, Any]]:
    if not largest or not largest[0].memory:
        return Figure(None, "no executable has a memory analysis")
    return Figure({**_named(largest[0]), "bytes": memory_need(largest[0].memory)})


def _memory_peaks(largest: Sequence[Executable]) -> Figure[list[Mapping[str, Any]]]:
    """What those of the largest executables hold of which it is known; equal ones once."""
    found = {
        (each.function, each.fingerprint): {**_named(each), **memory.to_dict(BUFFERS_SHOWN)}
        for each in largest
        if (memory := each.peak_memory.value) is not None
    }
    if found:
        return Figure(list(found.values()))
    return Figure(None, largest[0].peak_memory.reason if largest else "nothing was compiled")


def _named(executable: Executable) -> Mapping[str, Any]:
    content = figure(executable.fingerprint or None, executable.cost_reason).under("executable")
    return {"function": executable.function, **content}


def checked_executable(view: ExecutableView, room: float) -> ExecutableView:
    """The view without device time that is too long for `room` seconds, or too short for the work.

    `room` is what its runs had, on all devices together.
    """
    spent, near, per_run = view.seconds.value, view.efficiency, view.seconds_per_run.value or 0.0
    if spent is not None and spent > CLOCKS * room:
        runs = view.runs.value or 0
        why = f"{runs:g} runs of {duration(per_run)} do not fit into {duration(room)}"
    elif near.value is not None and near.value > (CACHE if RESIDENT in (near.reason or "") else PEAK):
        why = (
            f"a bound of {duration(view.bound_seconds.value or 0.0)} and a run of {duration(per_run)} "
            f"contradict each other by a factor of {near.value:.3g}; {PEAKS_AGAIN}"
        )
    else:
        return view
    absent: dict[str, Any] = dict.fromkeys(OF_TIME, Figure(None, why))
    return replace(view, **absent, bottleneck=Verdict("unknown", 0.0, None, reason=why))


def checked_loop(view: LoopView) -> LoopView:
    """The view without utilisation above a peak. Its other figures are of one sum, and cannot disagree."""
    for key, ratio in (("mfu", view.mfu.value), ("hfu", view.hfu.value)):
        if ratio is not None and ratio > PEAK:
            why = f"{key.upper()} would be {ratio:.3g} of the peak; {PEAKS_AGAIN}"
            absent: dict[str, Any] = {key: Figure(None, why)}
            view = replace(view, **absent)
    return view
