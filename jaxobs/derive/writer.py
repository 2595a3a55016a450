"""The one place that writes: the series of `/metrics` and the document of a snapshot.

A room keeps what it has counted, and shows figures of it as a view; it knows no metric. What is shown of one subject as
series is one or two functions here: `_count_…` for counters and histograms, `_…_gauges`. A room joins so:

1. Its view has the figures of the document (a field of `SnapshotView`). What is shown as series alone is read from the
   room: a total, or a `Histogram` that it fills with `observe`.
2. Here each gauge is yielded with its labels, and all series of a gauge are replaced at once, so that a series whose
   figure is gone goes as well; a counter is written by `total`, with the whole amount, and never by its increase; a
   histogram by `show`.
3. Where functions or executables share a limit on series, the room names those that have series of their own, and the
   total of any other goes to `__other__` with its own key as `of`: the rise goes to the labels that the key has now, no
   series falls, and `rate()` stays true when the choice changes. Only what changed needs to be written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxobs.derive import catalogue
from jaxobs.derive.compilation import CompilationView
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.host_lines import HostLines
from jaxobs.derive.memory import LiveArrays
from jaxobs.derive.process import RUN_LABELS, SourceState, is_up, source_view
from jaxobs.derive.series import Labels
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

GAUGES_OF_LOOPS = tuple(
    metric for metric in catalogue.CORE_METRICS if metric.kind == "gauge" and metric.labels[:1] == ("loop",)
)
GAUGES = tuple(
    metric for metric in catalogue.CORE_METRICS if metric.kind == "gauge" and metric not in GAUGES_OF_LOOPS
)

Gauge = tuple[Metric, Labels, float | None]
"""One series of a gauge; None where its value is not known."""

Advice = list[dict[str, Any]]


class Writer:
    """Writes series and documents of one job's snapshots."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._series = rooms.series
        self._functions, self._executables = Rows(), Rows()
        for phase in PHASES:  # closed sets of labels start at 0
            self._series.total(catalogue.COMPILE_FUNCTION_SECONDS, (OTHER, phase), 0.0)

    def write(self, view: SnapshotView, advice: Advice) -> None:
        """Bring all series up to date with a snapshot and the advice that was derived from it."""
        self._replace(
            GAUGES_OF_LOOPS, self._loop_gauges(view)
        )  # where series are limited these go before all others
        self._count_loops(view)
        self._count_host_lines("", self._rooms.loops.outside)
        self._count_executables()
        self._count_windows()
        self._count_compiles(view.compilation)
        self._count_process(view)
        self._count_sources(view.sources)
        self._replace(GAUGES, self._gauges(view, advice))

    def _replace(self, metrics: Iterable[Metric], gauges: Iterable[Gauge]) -> None:
        values: defaultdict[str, dict[Labels, float | None]] = defaultdict(dict)
        for metric, labels, value in gauges:
            values[metric.name][labels] = value
        for metric in metrics:
            self._series.replace(metric, values[metric.name].items())

    def _gauges(self, view: SnapshotView, advice: Advice) -> Iterator[Gauge]:
        for executable in _newest_of_each_content(view.executables_with_series):
            yield from _executable_gauges(executable)
        for name, age in view.process.compiling.items():
            yield catalogue.COMPILING, (name,), age
        yield catalogue.CACHE_ENABLED, (), view.compilation.persistent_cache.enabled.value
        for device in view.devices.value or ():
            yield from _device_gauges(device)
        for labels, rate in self._rooms.devices.ceilings():
            yield catalogue.CEILING, labels, rate
        yield from self._operation_gauges()
        yield from self._process_gauges(view)
        yield from _live_array_gauges(view.process.live_arrays.value)
        for piece in advice:
            place = tuple(str(piece.get(key) or "") for key in catalogue.ADVICE_INFO.labels)
            yield catalogue.ADVICE_INFO, place, 1.0
            yield catalogue.ADVICE_SAVES, place, piece.get("saves_ratio")
            yield catalogue.ADVICE_SAVES_BYTES, place, piece.get("saves_bytes")

    def _count_loops(self, view: SnapshotView) -> None:
        series = self._series
        for name, shown in view.loops.items():
            labels, loop = (name,), self._rooms.loops.by_name[name]
            series.total(catalogue.STEPS, labels, shown.steps)
            series.total(catalogue.STEPS_FAILED, labels, shown.failed_steps)
            series.total(catalogue.HANGS, labels, self._rooms.hangs.count.get(name, 0))
            series.total(catalogue.SLOWDOWNS, labels, self._rooms.slowdowns.count[name])
            series.total(catalogue.EXAMPLES, labels, shown.examples.value)
            series.total(catalogue.TOKENS, labels, shown.tokens.value)
            if shown.wall_seconds:
                for word, spent in (shown.components.value or {}).items():
                    series.total(catalogue.COMPONENT_SECONDS, (name, word), spent)
            for metric, times in (
                (catalogue.STEP_SECONDS, loop.step_times),
                (catalogue.STEP_HOST_SECONDS, loop.host_times),
            ):
                if times.value().count:
                    series.show(metric, labels, times)
            for (dtype, kind), flops in loop.work.flops.items():
                series.total(catalogue.FLOPS, (name, dtype, kind), flops)
            series.total(catalogue.BYTES, labels, loop.work.bytes)
            for bound, spent in loop.work.bound_seconds.items():
                series.total(catalogue.BOUND_SECONDS, (name, bound), spent)
            for key, number in loop.not_finite.items():
                series.total(catalogue.NOT_FINITE, (name, key), number)
            self._count_host_lines(name, loop.host)

    def _loop_gauges(self, view: SnapshotView) -> Iterator[Gauge]:
        standing = {row["loop"]: row["seconds"] for row in view.hangs if not row["over"]}
        for row in view.hangs:
            if not row["over"]:
                yield catalogue.HANG_INFO, (row["loop"], row["activity"] or "", row["line"] or ""), 1.0
        slow = self._rooms.slowdowns
        for row in view.slowdowns:
            if not row["over"]:
                yield catalogue.SLOWDOWN_INFO, (row["loop"], row["activity"] or "", row["line"] or ""), 1.0
        for name, loop in view.loops.items():
            labels, verdict = (name,), loop.bottleneck
            yield catalogue.SLOWDOWN_RATIO, labels, slow.ratio(name)
            yield catalogue.SLOWDOWN_BEGAN, labels, self._wall_time(slow.began(name))
            yield catalogue.HANG_SECONDS, labels, standing.get(name, 0.0)
            yield catalogue.LAST_STEP, labels, self._wall_time(self._rooms.loops.by_name[name].last_end)
            yield catalogue.MFU, labels, loop.mfu.value
            yield catalogue.HFU, labels, loop.hfu.value
            yield catalogue.BOTTLENECK_CONFIDENCE, labels, verdict.confidence
            yield catalogue.BOTTLENECK_INFO, (name, verdict.label, verdict.runner_up or ""), 1.0
            for word, share in verdict.shares.items():
                yield catalogue.BOTTLENECK, (name, word), share
            for key, figure in loop.recorded.items():
                yield catalogue.RECORDED, (name, key), figure.value

    def _count_host_lines(self, loop: str, lines: HostLines) -> None:
        for line, labels, spent in lines.counts():
            self._series.total(catalogue.HOST_LINE_SECONDS, (loop, *labels), spent, (loop, *line))

    def _count_executables(self) -> None:
        series = self._series
        for function in map(clean_label, self._rooms.executables.unseen):
            for metric in (catalogue.EXECUTABLE_RUNS, catalogue.EXECUTABLE_SECONDS):
                for labels in [known for known in series.gauges(metric.name) if known[0] == function]:
                    series.set(metric, labels, None)
        for executable, labels in self._rooms.executable_table.counted():
            key = (str(executable.number),)
            series.total(catalogue.EXECUTABLE_RUNS, labels, executable.runs, key)
            if executable.seconds:
                series.total(catalogue.EXECUTABLE_SECONDS, labels, executable.seconds, key)

    def _count_windows(self) -> None:
        series, windows = self._series, self._rooms.profiles
        for outcome, count in windows.outcomes.items():
            series.total(catalogue.PROFILE_WINDOWS, (outcome,), count)
        for loop, spent in windows.seconds.items():
            series.total(catalogue.PROFILED_SECONDS, (loop,), spent)
            series.total(catalogue.PROFILED_STEPS, (loop,), windows.steps[loop])
        for key, labels, spent, cost in windows.operations.counts():
            series.total(catalogue.OPERATION_SECONDS, labels, spent, key)
            if cost is not None:
                series.total(catalogue.OPERATION_FLOPS, labels, cost.flops, key)
                series.total(catalogue.OPERATION_BYTES, labels, cost.bytes, key)

    def _operation_gauges(self) -> Iterator[Gauge]:
        operations = self._rooms.profiles.operations
        for labels in operations.about:
            yield catalogue.OPERATION_INFO, labels, 1.0
        for function, share in operations.unmodelled_ratios.items():
            yield catalogue.UNMODELLED, (function,), share

    def _count_compiles(self, view: CompilationView) -> None:
        series, compiles = self._series, self._rooms.compiles
        for name, function in view.changed.items():
            label = name if name in view.with_series else OTHER
            series.total(catalogue.COMPILATIONS, (label,), function.compilations, (name,))
            for phase, amount in function.seconds.items():
                if amount:
                    series.total(catalogue.COMPILE_FUNCTION_SECONDS, (label, phase), amount, (name, phase))
            causes = Counter[str]()
            for reason in function.recompilations:
                causes[reason.cause] += reason.count
            for cause, count in causes.items():
                series.total(catalogue.RECOMPILATIONS, (label, cause), count, (name, cause))
        for phase, histogram in compiles.phases.items():
            series.show(catalogue.COMPILE_SECONDS, (phase,), histogram)
        for cause, amount in compiles.recompilations.seconds.items():
            series.total(catalogue.RECOMPILATION_SECONDS, (cause,), amount)
        series.total(catalogue.CACHE_SECONDS_SAVED, (), compiles.cache.seconds_gained)

    def _count_process(self, view: SnapshotView) -> None:
        series, agent = self._series, view.agent
        for category, spent in view.process.run_seconds.items():
            series.total(catalogue.RUN_SECONDS, (category,), spent)
        for phase, spent in view.process.phase_seconds.items():
            series.total(catalogue.PHASE_SECONDS, (phase,), spent)
        for outcome in ("accepted", "dropped", "refused"):
            series.total(catalogue.EVENTS, (outcome,), agent[f"events_{outcome}"])
        series.total(catalogue.EVENTS_EMITTED, (), agent["events_emitted"])
        series.total(catalogue.LISTENERS_RESTORED, (), agent["listeners_restored"])
        for where in ("probe", "agent"):
            series.total(catalogue.AGENT_CPU, (where,), agent["cpu_seconds"][where])
        for figure, count in self._rooms.validation.contradictions().items():
            series.total(catalogue.CONTRADICTIONS, (figure,), count)

    def _process_gauges(self, view: SnapshotView) -> Iterator[Gauge]:
        facts, identity, process = view.facts, view.identity, view.process
        versions = (
            facts.get("jaxobs"), identity["jax"], identity["jaxlib"], identity["platform"], facts.get("agent"),
            process.address.value,
        )  # fmt: skip
        yield catalogue.BUILD_INFO, tuple(str(part or "") for part in versions), 1.0
        yield catalogue.RUN_INFO, tuple(self._rooms.resource.get(name, "") for name in RUN_LABELS), 1.0
        yield catalogue.GOODPUT, (), process.goodput.value
        yield catalogue.LAST_HEARD, (), self._wall_time(self._rooms.observation.last_heard)
        yield catalogue.AGENT_RESIDENT, (), view.agent["resident_bytes"]
        if process.memory.value is not None:
            for key, metric in catalogue.PROCESS_MEMORY.items():
                yield metric, (), getattr(process.memory.value, key).value
        for name, (report, _) in view.sources.items():
            yield catalogue.SOURCE_UP, (name,), is_up(report)
            yield catalogue.SOURCE_LAST_SUCCESS, (name,), self._wall_time(report.last_success)

    def _count_sources(self, sources: Mapping[str, SourceState]) -> None:
        for name, (report, lost) in sources.items():
            self._series.total(catalogue.SOURCE_SECONDS, (name,), report.seconds)
            if report.kind == "exporter":
                self._series.total(catalogue.EXPORTER_FAILURES, (report.source,), report.failures)
                if lost is not None:
                    self._series.total(catalogue.EXPORTER_DROPPED, (report.source,), lost[0])

    def _wall_time(self, monotonic: int | None) -> float | None:
        """Unix seconds of an instant in monotonic nanoseconds."""
        return None if monotonic is None else self._rooms.clock.wall_time(monotonic) / NANOSECONDS

    def document(self, view: SnapshotView, advice: Advice) -> dict[str, Any]:
        """The whole document; rows of large tables that stay the same are written once for all snapshots."""
        functions = view.compilation.functions
        rows = self._functions.written(functions.values())
        return {
            "process": {**view.identity, **plain(view.facts)} | plain(view.process),
            "hangs": view.hangs,
            "slowdowns": view.slowdowns,
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
            **view.device_time().under("device_time"),
            **view.memory_peaks.under("memory_peaks"),
            **view.devices.under("devices"),
            "sources": {name: source_view(source) for name, source in view.sources.items()},
            "agent": view.agent,
            "advice": advice,
        }


def _newest_of_each_content(views: Iterable[ExecutableView]) -> Iterable[ExecutableView]:
    """Choose the newest one whose runs were timed of executables with the same labels, as where a function is made anew.

    So one that has not run yet hides nothing.
    """
    chosen: dict[Labels, ExecutableView] = {}
    for view in views:
        if view.labels not in chosen or view.seconds_per_run.value is not None:
            chosen[view.labels] = view
    return chosen.values()


def _executable_gauges(view: ExecutableView) -> Iterator[Gauge]:
    labels = view.labels
    if (cost := view.cost.value) is not None:
        yield catalogue.EXECUTABLE_FLOPS, labels, cost.flops
        yield catalogue.EXECUTABLE_BYTES, labels, cost.bytes
        yield catalogue.EXECUTABLE_INTENSITY, labels, cost.intensity
    yield catalogue.EXECUTABLE_ACHIEVED, labels, view.achieved_flops_per_second.value
    yield catalogue.EXECUTABLE_ATTAINABLE, labels, view.attainable_flops_per_second.value
    yield catalogue.EXECUTABLE_EFFICIENCY, labels, view.efficiency.value
    if view.seconds_per_run.value is not None:
        limits = view.bottleneck.label, view.bottleneck.runner_up or ""
        yield catalogue.EXECUTABLE_BOTTLENECK, labels + limits, 1.0
    for kind, amount in (view.memory.value or {}).items():
        yield catalogue.EXECUTABLE_MEMORY, (*labels, kind), float(amount)


def _device_gauges(device: DeviceView) -> Iterator[Gauge]:
    ordinal = str(device.device)
    yield catalogue.DEVICE_INFO, (ordinal, device.kind, device.uuid), 1.0
    if (known := device.peaks.value) is not None:
        for dtype, peak in known.peaks.matrix.items():
            yield catalogue.PEAK_FLOPS, (ordinal, dtype), peak.value
            yield catalogue.PEAK_INFO, (ordinal, dtype, peak.provenance), 1.0
        if (peak_of_memory := known.peaks.memory) is not None:
            yield catalogue.PEAK_BYTES, (ordinal,), peak_of_memory.value
            yield catalogue.PEAK_INFO, (ordinal, "memory", peak_of_memory.provenance), 1.0
    if (clocks := device.clocks.value) is not None:
        yield catalogue.DEVICE_UTILIZATION, (ordinal,), clocks.utilization_ratio.value
        yield catalogue.DEVICE_CLOCK, (ordinal,), clocks.clock_ratio.value
        for reason in clocks.throttle_reasons.value or ():
            yield catalogue.DEVICE_THROTTLED, (ordinal, reason), 1.0
    if (memory := device.memory.value) is not None:
        for key, metric in catalogue.DEVICE_MEMORY.items():
            yield metric, (ordinal,), getattr(memory, key).value


def _live_array_gauges(live: LiveArrays | None) -> Iterator[Gauge]:
    """Counts and bytes by shape, type and sharding, and bytes by line: the largest of each, and the rest in one."""
    if live is None:
        return
    groups, lines = live.groups[:MAX_GROUPS], (live.lines.value or ())[:MAX_LINES]
    for group in groups:
        labels = (group["shape"], group["dtype"], group["sharding"])
        yield catalogue.LIVE_ARRAYS, labels, group["count"]
        yield catalogue.LIVE_ARRAYS_BYTES, labels, group["bytes"]
    for line in lines:
        yield catalogue.LIVE_ARRAYS_LINE_BYTES, (line["line"] or UNKNOWN_LINE,), line["bytes"]
    others = (OTHER, OTHER, OTHER)
    yield catalogue.LIVE_ARRAYS, others, max(0, live.count - sum(group["count"] for group in groups))
    yield catalogue.LIVE_ARRAYS_BYTES, others, max(0, live.bytes - sum(group["bytes"] for group in groups))
    if lines:
        rest = max(0, live.bytes - sum(line["bytes"] for line in lines))
        yield catalogue.LIVE_ARRAYS_LINE_BYTES, (OTHER,), rest
