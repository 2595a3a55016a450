"""Brings all rooms up to date, in the order in which one needs the other, and builds the view of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from jaxobs.derive.executables.gauges import show_executables
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.loop_time import LoopTime
from jaxobs.derive.loops.view import LoopView, loop_view, show_bottlenecks, show_loop
from jaxobs.derive.memory.view import PeakExecutable
from jaxobs.derive.process.view import ProcessView, identity_view
from jaxobs.derive.snapshot.rooms import Rooms
from jaxobs.derive.snapshot.view import SnapshotView
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import memory_need
from jaxobs.model.figure import Figure, figure


def snapshot_view(rooms: Rooms, now: int) -> SnapshotView:
    """The view of all rooms as of `now`; their series are brought up to date. Contradicting figures are in neither."""
    loops = _loops(rooms, now)
    executables = _executables(rooms, seconds(now - rooms.began))
    rooms.compiles.update(now)
    rooms.devices.update(now)
    _update_run_time(rooms, now)
    rooms.loops.outside.update()
    show_bottlenecks(loops, rooms.series)
    rooms.observation.update(rooms.resource, rooms.facts, rooms.devices.backend)
    rooms.validation.count()
    return SnapshotView(
        identity=identity_view(rooms.resource, rooms.devices.backend),
        facts=rooms.facts,
        process=_process(rooms, executables, now),
        loops=loops,
        functions=rooms.compiles.views,
        functions_left_out=rooms.compiles.left_out(),
        executables=executables,
        executables_left_out=rooms.executable_table.left_out(),
        operations=rooms.profiles.operations.operations,
        scopes=rooms.profiles.operations.scopes,
        devices=rooms.devices.views(rooms.memory, loops.values(), executables),
        sources=rooms.observation.sources(),
        agent=rooms.observation.agent(),
    )


def _loops(rooms: Rooms, now: int) -> dict[str, LoopView]:
    views = {}
    for name, loop in rooms.loops.by_name.items():
        loop.update(now)
        views[name] = rooms.validation.loop(name, loop_view(loop))
        last_step = None if loop.last_end is None else rooms.clock.wall_time(loop.last_end) / NANOSECONDS
        show_loop(name, views[name], last_step, rooms.series)
    return views


def _executables(rooms: Rooms, age: float) -> list[ExecutableView]:
    """Views of the executables that are listed; `age` is the age of the process, s."""
    table = rooms.executable_table
    table.update()
    backend = rooms.devices.backend
    # Devices may run an executable side by side, each by itself, so the time for runs is that of all devices.
    room = age * max(1, len(backend.devices) if backend else 0)
    views = {number: rooms.validation.executable(view, room) for number, view in table.views.items()}
    show_executables((views[number] for number in table.shown), rooms.series)
    return [views[number] for number in table.listed]


def end_run_time(rooms: Rooms, now: int) -> Figure[float]:
    """Charge all time of a job that is over, and return its goodput."""
    rooms.run_time.job_ended()
    for loop in rooms.loops.by_name.values():
        loop.update(now)
    _update_run_time(rooms, now)
    return rooms.run_time.goodput()


def _update_run_time(rooms: Rooms, now: int) -> None:
    times = {
        name: LoopTime(loop.wall, loop.components, loop.stalls, saves_are_phases=loop.inferred)
        for name, loop in rooms.loops.by_name.items()
    }
    running = rooms.under_way.at(now)
    began, undecided = running.start if running else None, rooms.loops.inferred.undecided_since
    rooms.run_time.update(now, times, rooms.compiles.in_flight_since(), began, undecided)


def _process(rooms: Rooms, executables: Iterable[ExecutableView], now: int) -> ProcessView:
    return ProcessView(
        seconds=seconds(now - rooms.began),
        run_seconds=dict(rooms.run_time.seconds),
        goodput=rooms.run_time.goodput(),
        running=rooms.under_way.view(now, rooms.executables.function_of),
        persistent_cache=rooms.compiles.persistent_cache.view(),
        address=figure(rooms.observation.address or None, "no exporter serves metrics"),
        host_lines=rooms.loops.outside.rows(),
        host_samples=rooms.loops.outside.samples,
        memory=rooms.memory.process,
        peak_executable=_peak_executable(executables),
        live_arrays=rooms.memory.live_arrays(now),
        recent=rooms.recent.view(now),
    )


def _peak_executable(executables: Iterable[ExecutableView]) -> Figure[PeakExecutable]:
    """The executable that needs the most memory on a device."""
    needs = [(memory_need(view.memory.value), view) for view in executables if view.memory.value]
    if not needs:
        return Figure(None, "no executable has a memory analysis")
    most, view = max(needs, key=lambda pair: pair[0])
    return Figure(PeakExecutable(view.function, view.executable, most))
