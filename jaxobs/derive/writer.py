"""The one place that writes: the series of `/metrics` and the document of a snapshot.

A room keeps what it has counted, and shows figures of it as a view; it knows no metric. What is shown of one subject as
series is one function here, `_write_…`, called by `Writer.write`. A room joins so:

1. Its view has the figures of the document (a field of `SnapshotView`). What is shown as series alone is read from the
   room: a total, or a `Histogram` that it fills with `observe`.
2. Here a gauge is written by `replace`, with all its labels at once, so that a series whose figure is gone goes as well;
   a counter by `total`, with the whole amount, and never by its increase; a histogram by `show`.
3. Where functions or executables share a limit on series, the room names those that have series of their own, and the
   total of any other goes to `__other__` with its own key as `of`: the rise goes to the labels that the key has now, no
   series falls, and `rate()` stays true when the choice changes. Only what changed needs to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxobs.derive import catalogue
from jaxobs.derive.compilation import CompilationView
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.host_lines import HostLines
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.memory import DeviceMemory, LiveArrays
from jaxobs.derive.process import RUN_LABELS, SourceState, is_up, source_view
from jaxobs.derive.profiler_windows.operations import OperationCounts
from jaxobs.derive.profiler_windows.windows import Profiles
from jaxobs.derive.series import Labels, Series
from jaxobs.derive.snapshot import Rooms, SnapshotView
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.figure import Rows, plain
from jaxobs.model.metrics import Metric
from jaxobs.vocabulary.text import OTHER, clean_label
from jaxobs.vocabulary.words import PHASES

MAX_GROUPS = 20
MAX_LINES = 10
"""Groups of live arrays, and lines that made them, with series of their own; the rest are summed in one more series."""

UNKNOWN_LINE = "(unknown)"

EXECUTABLE_GAUGES = tuple(
    metric
    for metric in catalogue.CORE_METRICS
    if metric.kind == "gauge" and metric.labels[:2] == ("function", "executable")
)

Advice = list[dict[str, Any]]


class Writer:
    """Writes series and documents of one job's snapshots."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._series = rooms.series
        self._written: OperationCounts | None = None
        """The counts of operations that were written last: they change with a window alone."""
        self._functions, self._executables = Rows(), Rows()
        for phase in PHASES:  # closed sets of labels start at 0
            self._series.total(catalogue.COMPILE_FUNCTION_SECONDS, (OTHER, phase), 0.0)

    def write(self, view: SnapshotView, advice: Advice) -> None:
        """Bring all series up to date with a snapshot and the advice that was derived from it."""
        self._write_loops(view)
        self._write_host_lines("", self._rooms.loops.outside)
        _write_executables(view, self._rooms)
        self._write_windows(self._rooms.profiles)
        _write_compilation(view.compilation, self._series)
        self._write_devices(view.devices.value or ())
        _write_memory(view, self._series)
        self._write_process(view)
        self._write_sources(view.sources)
        _write_advice(advice, self._series)

    def _write_loops(self, view: SnapshotView) -> None:
        series, shares, information, recorded = self._series, [], [], []
        for name, loop in view.loops.items():
            labels, verdict, counted = (name,), loop.bottleneck, self._rooms.loops.by_name[name]
            _write_loop_counts(counted, series)
            series.total(catalogue.STEPS, labels, loop.steps)
            series.total(catalogue.STEPS_FAILED, labels, loop.failed_steps)
            series.total(catalogue.EXAMPLES, labels, loop.examples.value)
            series.total(catalogue.TOKENS, labels, loop.tokens.value)
            if loop.wall_seconds:
                for word, spent in (loop.components.value or {}).items():
                    series.total(catalogue.COMPONENT_SECONDS, (name, word), spent)
            series.set(catalogue.LAST_STEP, labels, self._wall_time(counted.last_end))
            series.set(catalogue.MFU, labels, loop.mfu.value)
            series.set(catalogue.HFU, labels, loop.hfu.value)
            series.set(catalogue.BOTTLENECK_CONFIDENCE, labels, verdict.confidence)
            shares += [((name, word), share) for word, share in verdict.shares.items()]
            information.append(((name, verdict.label, verdict.runner_up or ""), 1.0))
            recorded += [((name, key), value.value) for key, value in loop.recorded.items()]
            self._write_host_lines(name, counted.host)
        series.replace(catalogue.BOTTLENECK, shares)
        series.replace(catalogue.BOTTLENECK_INFO, information)
        series.replace(catalogue.RECORDED, recorded)

    def _write_host_lines(self, loop: str, lines: HostLines) -> None:
        for line, labels, spent in lines.counts():
            self._series.total(catalogue.HOST_LINE_SECONDS, (loop, *labels), spent, (loop, *line))

    def _write_windows(self, windows: Profiles) -> None:
        series, operations = self._series, windows.operations.counts
        for outcome, count in windows.outcomes.items():
            series.total(catalogue.PROFILE_WINDOWS, (outcome,), count)
        for loop, spent in windows.seconds.items():
            series.total(catalogue.PROFILED_SECONDS, (loop,), spent)
            series.total(catalogue.PROFILED_STEPS, (loop,), windows.steps[loop])
        if operations is None or operations is self._written:
            return
        self._written = operations
        for number, labels, spent, cost in operations.operations:
            key = (str(number),)
            series.total(catalogue.OPERATION_SECONDS, labels, spent, key)
            if cost is not None:
                series.total(catalogue.OPERATION_FLOPS, labels, cost.flops, key)
                series.total(catalogue.OPERATION_BYTES, labels, cost.bytes, key)
        series.replace(catalogue.OPERATION_INFO, ((labels, 1.0) for labels in operations.about))
        unmodelled = (((name,), share) for name, share in operations.unmodelled.items())
        series.replace(catalogue.UNMODELLED, unmodelled)

    def _write_devices(self, devices: Iterable[DeviceView]) -> None:
        info, flops, memory, sources = [], [], [], []
        utilization, clocks, throttled = [], [], []
        for device in devices:
            ordinal = str(device.device)
            info.append(((ordinal, device.kind, device.uuid), 1.0))
            if (known := device.peaks.value) is not None:
                for dtype, peak in known.peaks.matrix.items():
                    flops.append(((ordinal, dtype), peak.value))
                    sources.append(((ordinal, dtype, peak.provenance), 1.0))
                if (peak_of_memory := known.peaks.memory) is not None:
                    memory.append(((ordinal,), peak_of_memory.value))
                    sources.append(((ordinal, "memory", peak_of_memory.provenance), 1.0))
            if (reading := device.clocks.value) is not None:
                utilization.append(((ordinal,), reading.utilization_ratio.value))
                clocks.append(((ordinal,), reading.clock_ratio.value))
                throttled += [((ordinal, why), 1.0) for why in reading.throttle_reasons.value or ()]
        replace = self._series.replace
        replace(catalogue.DEVICE_INFO, info)
        replace(catalogue.PEAK_FLOPS, flops)
        replace(catalogue.PEAK_BYTES, memory)
        replace(catalogue.PEAK_INFO, sources)
        replace(catalogue.CEILING, self._rooms.devices.ceilings.items())
        replace(catalogue.DEVICE_UTILIZATION, utilization)
        replace(catalogue.DEVICE_CLOCK, clocks)
        replace(catalogue.DEVICE_THROTTLED, throttled)

    def _write_process(self, view: SnapshotView) -> None:
        series, identity, agent = self._series, view.identity, view.agent
        versions = (
            str(view.facts.get("jaxobs", "")), identity["jax"] or "", identity["jaxlib"] or "",
            identity["platform"] or "", str(view.facts.get("agent", "")), view.process.address.value or "",
        )  # fmt: skip
        series.replace(catalogue.BUILD_INFO, [(versions, 1.0)])
        run = tuple(self._rooms.resource.get(name, "") for name in RUN_LABELS)
        series.replace(catalogue.RUN_INFO, [(run, 1.0)])
        for category, spent in view.process.run_seconds.items():
            series.total(catalogue.RUN_SECONDS, (category,), spent)
        series.set(catalogue.GOODPUT, (), view.process.goodput.value)
        series.set(catalogue.LAST_HEARD, (), self._wall_time(self._rooms.observation.last_heard))
        series.total(catalogue.EVENTS, ("accepted",), agent["events_accepted"])
        series.total(catalogue.EVENTS, ("dropped",), agent["events_dropped"])
        series.total(catalogue.EVENTS, ("refused",), agent["events_refused"])
        series.total(catalogue.EVENTS_EMITTED, (), agent["events_emitted"])
        series.total(catalogue.LISTENERS_RESTORED, (), agent["listeners_restored"])
        series.total(catalogue.AGENT_CPU, ("probe",), agent["cpu_seconds"]["probe"])
        series.total(catalogue.AGENT_CPU, ("agent",), agent["cpu_seconds"]["agent"])
        series.set(catalogue.AGENT_RESIDENT, (), agent["resident_bytes"])
        for figure, count in self._rooms.validation.contradictions().items():
            series.total(catalogue.CONTRADICTIONS, (figure,), count)

    def _write_sources(self, sources: Mapping[str, SourceState]) -> None:
        series = self._series
        series.replace(catalogue.SOURCE_UP, (((name,), is_up(each.report)) for name, each in sources.items()))
        succeeded = (((name,), self._wall_time(each.report.last_success)) for name, each in sources.items())
        series.replace(catalogue.SOURCE_LAST_SUCCESS, succeeded)
        for name, (report, lost) in sources.items():
            series.total(catalogue.SOURCE_SECONDS, (name,), report.seconds)
            if report.kind == "exporter":
                series.total(catalogue.EXPORTER_FAILURES, (report.source,), report.failures)
                if lost is not None:
                    series.total(catalogue.EXPORTER_DROPPED, (report.source,), lost[0])

    def _wall_time(self, monotonic: int | None) -> float | None:
        """Unix seconds of an instant in monotonic nanoseconds."""
        return None if monotonic is None else self._rooms.clock.wall_time(monotonic) / NANOSECONDS

    def outline(self, view: SnapshotView) -> dict[str, Any]:
        """The parts of the document that are drawn over time, each in its place."""
        devices = view.devices.value or ()
        return {
            "process": {"memory": plain(view.process.memory.value)},
            "loops": plain(view.loops),
            "functions": {
                name: {"recompilation_count": function.recompilation_count}
                for name, function in view.compilation.functions.items()
            },
            "devices": [{"device": each.device, "memory": plain(each.memory.value)} for each in devices],
        }

    def document(self, view: SnapshotView, advice: Advice) -> dict[str, Any]:
        """The whole document; rows of large tables that stay the same are written once for all snapshots."""
        functions = view.compilation.functions
        rows = self._functions.written(functions.values())
        return {
            "process": {**view.identity, **plain(view.facts)} | plain(view.process),
            "loops": plain(view.loops),
            "functions": dict(zip(functions, rows, strict=True)),
            **view.compilation.left_out.under("functions_left_out"),
            "functions_left_out_seconds": view.compilation.left_out_seconds,
            "executables": self._executables.written(view.executables),
            **view.executables_left_out.under("executables_left_out"),
            "operations": view.operations.value,
            "operations_reason": view.operations.reason,
            "scopes": view.scopes.value,
            "scopes_reason": view.scopes.reason,
            **view.devices.under("devices"),
            "sources": {name: source_view(source) for name, source in view.sources.items()},
            "agent": view.agent,
            "advice": advice,
        }


def _write_loop_counts(loop: Loop, series: Series) -> None:
    name, work = loop.name, loop.work
    for metric, observed in (
        (catalogue.STEP_SECONDS, loop.step_times.value()),
        (catalogue.STEP_HOST_SECONDS, loop.host_times.value()),
    ):
        if any(observed.counts):
            series.show(metric, (name,), observed)
    for (dtype, kind), flops in work.flops.items():
        series.total(catalogue.FLOPS, (name, dtype, kind), flops)
    series.total(catalogue.BYTES, (name,), work.bytes)
    for bound, spent in work.bound_seconds.items():
        series.total(catalogue.BOUND_SECONDS, (name, bound), spent)
    for key, number in loop.not_finite.items():
        series.total(catalogue.NOT_FINITE, (name, key), number)


def _write_executables(view: SnapshotView, rooms: Rooms) -> None:
    series = rooms.series
    for function in map(clean_label, rooms.executables.unseen):
        for metric in (catalogue.EXECUTABLE_RUNS, catalogue.EXECUTABLE_SECONDS):
            for labels in [known for known in series.gauges(metric.name) if known[0] == function]:
                series.set(metric, labels, None)
    for executable, labels in rooms.executable_table.counted():
        key = (str(executable.number),)
        series.total(catalogue.EXECUTABLE_RUNS, labels, executable.runs, key)
        if executable.seconds:
            series.total(catalogue.EXECUTABLE_SECONDS, labels, executable.seconds, key)
    values: dict[Metric, dict[Labels, float | None]] = {metric: {} for metric in EXECUTABLE_GAUGES}
    for each in _newest_of_each_content(view.executables_with_series):
        for metric, labels, value in _executable_gauges(each):
            values[metric][each.labels + labels] = value
    for metric, shown in values.items():
        series.replace(metric, shown.items())


def _newest_of_each_content(views: Iterable[ExecutableView]) -> Iterable[ExecutableView]:
    """Choose the newest one whose runs were timed of executables with the same labels, as where a function is made anew.

    So one that has not run yet hides nothing.
    """
    chosen: dict[Labels, ExecutableView] = {}
    for view in views:
        if view.labels not in chosen or view.seconds_per_run.value is not None:
            chosen[view.labels] = view
    return chosen.values()


def _executable_gauges(view: ExecutableView) -> Iterator[tuple[Metric, Labels, float | None]]:
    """The gauges of one executable: metric, labels after those of the executable, and value."""
    if view.cost.value is not None:
        cost = view.cost.value
        yield catalogue.EXECUTABLE_FLOPS, (), cost.flops
        yield catalogue.EXECUTABLE_BYTES, (), cost.bytes
        yield catalogue.EXECUTABLE_INTENSITY, (), cost.intensity
    yield catalogue.EXECUTABLE_ACHIEVED, (), view.achieved_flops_per_second.value
    yield catalogue.EXECUTABLE_ATTAINABLE, (), view.attainable_flops_per_second.value
    yield catalogue.EXECUTABLE_EFFICIENCY, (), view.efficiency.value
    if view.seconds_per_run.value is not None:
        limits = view.bottleneck.label, view.bottleneck.runner_up or ""
        yield catalogue.EXECUTABLE_BOTTLENECK, limits, 1.0
    for kind, amount in (view.memory.value or {}).items():
        yield catalogue.EXECUTABLE_MEMORY, (kind,), float(amount)


def _write_compilation(view: CompilationView, series: Series) -> None:
    for name, function in view.changed.items():
        label = name if name in view.with_series else OTHER
        series.total(catalogue.COMPILATIONS, (label,), function.compilations, (name,))
        for phase, amount in function.seconds.items():
            if amount:
                series.total(catalogue.COMPILE_FUNCTION_SECONDS, (label, phase), amount, (name, phase))
        causes: dict[str, int] = {}
        for reason in function.recompilations:
            causes[reason.cause] = causes.get(reason.cause, 0) + reason.count
        for cause, count in causes.items():
            series.total(catalogue.RECOMPILATIONS, (label, cause), count, (name, cause))
    for phase, histogram in view.phase_seconds.items():
        series.show(catalogue.COMPILE_SECONDS, (phase,), histogram)
    for cause, amount in view.recompilation_seconds.items():
        series.total(catalogue.RECOMPILATION_SECONDS, (cause,), amount)
    series.replace(catalogue.COMPILING, (((name,), age) for name, age in view.in_progress.items()))
    series.set(catalogue.CACHE_ENABLED, (), view.persistent_cache.enabled.value)
    series.total(catalogue.CACHE_SECONDS_SAVED, (), view.seconds_gained)


def _write_memory(view: SnapshotView, series: Series) -> None:
    devices: list[tuple[int, DeviceMemory]] = [
        (each.device, each.memory.value) for each in view.devices.value or () if each.memory.value
    ]
    for key, metric in catalogue.DEVICE_MEMORY.items():
        series.replace(metric, (((str(at),), getattr(memory, key).value) for at, memory in devices))
    process = view.process.memory.value
    for key, metric in catalogue.PROCESS_MEMORY.items():
        series.set(metric, (), None if process is None else getattr(process, key).value)
    counts, sizes, lines = _live_arrays(view.process.live_arrays.value)
    series.replace(catalogue.LIVE_ARRAYS, counts.items())
    series.replace(catalogue.LIVE_ARRAYS_BYTES, sizes.items())
    series.replace(catalogue.LIVE_ARRAYS_LINE_BYTES, lines.items())


def _live_arrays(
    live: LiveArrays | None,
) -> tuple[dict[Labels, float], dict[Labels, float], dict[Labels, float]]:
    """Counts and bytes by shape, type and sharding, and bytes by line: the largest of each, and the rest in one."""
    if live is None:
        return {}, {}, {}
    groups = [
        ((group["shape"], group["dtype"], group["sharding"]), group) for group in live.groups[:MAX_GROUPS]
    ]
    counts: dict[Labels, float] = {labels: group["count"] for labels, group in groups}
    sizes: dict[Labels, float] = {labels: group["bytes"] for labels, group in groups}
    lines: dict[Labels, float] = {
        (line["line"] or UNKNOWN_LINE,): line["bytes"] for line in (live.lines.value or ())[:MAX_LINES]
    }
    counts[OTHER, OTHER, OTHER] = max(0, live.count - sum(counts.values()))
    sizes[OTHER, OTHER, OTHER] = max(0, live.bytes - sum(sizes.values()))
    if lines:
        lines[OTHER,] = max(0, live.bytes - sum(lines.values()))
    return counts, sizes, lines


def _write_advice(advice: Advice, series: Series) -> None:
    places = [
        (tuple(str(piece.get(key) or "") for key in ("condition", "loop", "function")), piece)
        for piece in advice
    ]
    series.replace(catalogue.ADVICE_INFO, ((labels, 1.0) for labels, _ in places))
    series.replace(catalogue.ADVICE_SAVES, ((labels, piece.get("saves_ratio")) for labels, piece in places))
    series.replace(
        catalogue.ADVICE_SAVES_BYTES, ((labels, piece.get("saves_bytes")) for labels, piece in places)
    )
