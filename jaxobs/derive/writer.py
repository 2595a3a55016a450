"""The one place that writes: the series of `/metrics` and the document of a snapshot.

A room keeps what it has counted, and shows figures of it as a view; it knows no metric. What is shown of one subject as
series is a function here, which yields the name, labels and value of each. A room joins so:

1. Its view has the figures of the document (a field of `SnapshotView`). What is shown as series alone is read from the
   room: a total, or a `Histogram` that it fills with `observe`.
2. Here all series of a gauge are replaced at once, so that a series whose figure is gone goes as well; a counter is
   yielded with its whole amount, and never with its increase.
3. Where functions or executables share a limit on series, the room names those that have series of their own, and the
   total of any other goes to `__other__` with its own key as `of`: the rise goes to the labels that the key has now, no
   series falls, and `rate()` stays true when the choice changes. Only what changed needs to be written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.host_lines import HostLines
from jaxobs.derive.loops.recorded import RecordedValue
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.memory import LiveArrays
from jaxobs.derive.process import RUN_LABELS, SourceState, is_up, source_view
from jaxobs.derive.series import Histogram, Labels
from jaxobs.derive.snapshot import Rooms, SnapshotView
from jaxobs.model.figure import Rows, plain
from jaxobs.vocabulary.text import OTHER, clean_label
from jaxobs.vocabulary.words import PHASES

MAX_GROUPS = 20
MAX_LINES = 10
"""Groups of live arrays, and lines that made them, with series of their own; the rest are summed in one more series."""

MAX_BUFFERS = 10
"""Kinds of buffers at the peak with series of their own: of a model's most are small."""

UNKNOWN_LINE = "(unknown)"

GAUGES = [metric for metric in CORE_METRICS if metric.kind == "gauge"]
WORK_OF_LOOPS = ("jaxobs_flops_total", "jaxobs_bytes_total", "jaxobs_bound_seconds_total")
"""Counters that end where it is not seen what runs, as those of runs do."""
GAUGES_OF_LOOPS = tuple(metric.name for metric in GAUGES if metric.labels[:1] == ("loop",))
OTHER_GAUGES = tuple(metric.name for metric in GAUGES if metric.labels[:1] != ("loop",))

MEMORY_OF_DEVICES = {
    "in_use_bytes": "jaxobs_device_memory_in_use_bytes",
    "peak_bytes": "jaxobs_device_memory_peak_bytes",
    "limit_bytes": "jaxobs_device_memory_limit_bytes",
    "largest_free_block_bytes": "jaxobs_device_memory_largest_free_bytes",
    "fragmented_bytes": "jaxobs_device_memory_fragmented_bytes",
    "forecast_seconds": "jaxobs_device_memory_exhaustion_seconds",
}
MEMORY_OF_THE_PROCESS = {
    "peak_bytes": "jaxobs_process_memory_peak_bytes",
    "limit_bytes": "jaxobs_process_memory_limit_bytes",
    "forecast_seconds": "jaxobs_process_memory_exhaustion_seconds",
}
"""Metrics by figure of the view."""

Sample = tuple[str, Labels, float | Histogram | None] | tuple[str, Labels, float, Labels]
"""What is shown as one series: metric, labels and value, None where it is not known; of a counter whose labels may
change also what identifies it."""

Advice = list[dict[str, Any]]


class Writer:
    """Writes series and documents of one job's snapshots."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._series = rooms.series
        self._functions, self._executables = Rows(), Rows()
        for phase in PHASES:  # closed sets of labels start at 0
            self._series.total("jaxobs_compile_function_seconds_total", (OTHER, phase), 0.0)

    def write(self, view: SnapshotView, advice: Advice) -> None:
        """Bring all series up to date with a snapshot and the advice that was derived from it."""
        # Where series are limited these go before all others.
        self._write((*GAUGES_OF_LOOPS, *WORK_OF_LOOPS), self._loops(view))
        for function in map(clean_label, self._rooms.executables.unseen):
            for metric in ("jaxobs_executable_runs_total", "jaxobs_executable_seconds_total"):
                for labels in [known for known in self._series.gauges(metric) if known[0] == function]:
                    self._series.set(metric, labels, None)
        self._write(OTHER_GAUGES, self._others(view, advice))

    def _write(self, gauges: Iterable[str], samples: Iterable[Sample]) -> None:
        found: dict[str, dict[Labels, float | None]] = {name: {} for name in gauges}
        for name, labels, value, *of in samples:
            if isinstance(value, Histogram):
                self._series.show(name, labels, value)
            elif name in found:
                found[name][labels] = value
            else:
                self._series.total(name, labels, value, *of)
        for name, values in found.items():
            self._series.replace(name, values.items())

    def _others(self, view: SnapshotView, advice: Advice) -> Iterator[Sample]:
        yield from self._host_lines("", self._rooms.loops.outside)
        yield from self._runs()
        # Of executables with the same labels, as where a function is made anew, the newest one whose runs were timed.
        shown = view.executables_with_series
        timed_last = sorted(shown, key=lambda each: each.seconds_per_run.value is not None)
        for executable in {each.labels: each for each in timed_last}.values():
            yield from _executable(executable)
        yield from _peak_buffers(self._rooms.executables.largest)
        yield from self._windows()
        yield from self._compiles(view)
        for device in view.devices.value or ():
            yield from _device(device)
        for labels, rate in self._rooms.devices.ceilings():
            yield "jaxobs_roofline_ceiling_flops_per_second", labels, rate
        yield from self._process(view)
        yield from self._sources(view.sources)
        yield from _live_arrays(view.process.live_arrays.value)
        for piece in advice:
            place = tuple(str(piece.get(key) or "") for key in ("condition", "loop", "function"))
            yield "jaxobs_advice_info", place, 1.0
            yield "jaxobs_advice_saves_ratio", place, piece.get("saves_ratio")
            yield "jaxobs_advice_saves_bytes", place, piece.get("saves_bytes")

    def _loops(self, view: SnapshotView) -> Iterator[Sample]:
        hangs, slowdowns = self._rooms.hangs, self._rooms.slowdowns
        standing = {row["loop"]: row for row in view.hangs if not row["over"]}
        slow = {row["loop"]: row for row in view.slowdowns if not row["over"]}
        for metric, rows in (("jaxobs_hang_info", standing), ("jaxobs_slowdown_info", slow)):
            for name, row in rows.items():
                yield metric, (name, row["activity"] or "", row["line"] or ""), 1.0
        for name, shown in view.loops.items():
            labels = (name,)
            yield "jaxobs_hangs_total", labels, hangs.count[name]
            yield "jaxobs_hang_seconds", labels, standing[name]["seconds"] if name in standing else 0.0
            yield "jaxobs_slowdowns_total", labels, slowdowns.count[name]
            if self._rooms.loops.by_name[name].gone is None:
                yield "jaxobs_slowdown_ratio", labels, slowdowns.ratio(name)
                yield "jaxobs_slowdown_timestamp_seconds", labels, self._wall_time(slowdowns.began(name))
            yield from self._loop(name, shown)
            yield from self._host_lines(name, self._rooms.loops.by_name[name].host)

    def _loop(self, name: str, shown: LoopView) -> Iterator[Sample]:
        labels, loop = (name,), self._rooms.loops.by_name[name]
        yield "jaxobs_steps_total", labels, shown.steps
        yield "jaxobs_steps_failed_total", labels, shown.failed_steps
        yield "jaxobs_examples_total", labels, shown.examples.value
        yield "jaxobs_tokens_total", labels, shown.tokens.value
        yield "jaxobs_last_step_timestamp_seconds", labels, self._wall_time(loop.last_end)
        if shown.wall_seconds:
            for word, spent in shown.components.items():
                yield "jaxobs_step_component_seconds_total", (name, word), spent
        if loop.step_times.value().count:
            yield "jaxobs_step_seconds", labels, loop.step_times
        if loop.host_times.value().count:
            yield "jaxobs_step_host_seconds", labels, loop.host_times
        if loop.work.why_unseen() is None:
            for (dtype, kind), flops in loop.work.flops.items():
                yield "jaxobs_flops_total", (name, dtype, kind), flops
            yield "jaxobs_bytes_total", labels, loop.work.bytes
            for bound, spent in loop.work.bound_seconds.items():
                yield "jaxobs_bound_seconds_total", (name, bound), spent
        if loop.late is None:
            yield from self._last_window(name, shown)
        for key, recorded in loop.recorded.items():
            yield from _recorded((name, key), recorded)

    def _last_window(self, name: str, shown: LoopView) -> Iterator[Sample]:
        verdict = shown.bottleneck
        yield "jaxobs_mfu_ratio", (name,), shown.mfu.value
        yield "jaxobs_hfu_ratio", (name,), shown.hfu.value
        yield "jaxobs_bottleneck_confidence_ratio", (name,), verdict.confidence
        yield "jaxobs_bottleneck_info", (name, verdict.label, verdict.runner_up or ""), 1.0
        for word, share in verdict.shares.items():
            yield "jaxobs_bottleneck_ratio", (name, word), share

    def _host_lines(self, loop: str, lines: HostLines) -> Iterator[Sample]:
        for line, labels, spent in lines.counts():
            yield "jaxobs_host_line_sampled_seconds_total", (loop, *labels), spent, (loop, *line)

    def _runs(self) -> Iterator[Sample]:
        for executable, labels in self._rooms.executable_table.counted():
            key = (str(executable.number),)
            yield "jaxobs_executable_runs_total", labels, executable.runs, key
            if executable.seconds:
                yield "jaxobs_executable_seconds_total", labels, executable.seconds, key

    def _windows(self) -> Iterator[Sample]:
        windows = self._rooms.profiles
        for outcome, count in windows.outcomes.items():
            yield "jaxobs_profile_windows_total", (outcome,), count
        for loop, spent in windows.seconds.items():
            yield "jaxobs_profiled_seconds_total", (loop,), spent
            yield "jaxobs_profiled_steps_total", (loop,), windows.steps[loop]
        for key, labels, spent, cost in windows.operations.counts():
            yield "jaxobs_operation_sampled_seconds_total", labels, spent, key
            if cost is not None:
                yield "jaxobs_operation_sampled_flops_total", labels, cost.flops, key
                yield "jaxobs_operation_sampled_bytes_total", labels, cost.bytes, key
        for about in windows.operations.about:
            yield "jaxobs_operation_info", about, 1.0
        for function, share in windows.operations.unmodelled_ratios.items():
            yield "jaxobs_unmodelled_ratio", (function,), share

    def _compiles(self, view: SnapshotView) -> Iterator[Sample]:
        compiles, compilation = self._rooms.compiles, view.compilation
        for name, function in compilation.changed.items():
            label = name if name in compilation.with_series else OTHER
            yield "jaxobs_compilations_total", (label,), function.compilations, (name,)
            for phase, amount in function.seconds.items():
                if amount:
                    key = (name, phase)
                    yield "jaxobs_compile_function_seconds_total", (label, phase), amount, key
            causes = Counter[str]()
            for reason in function.recompilations:
                causes[reason.cause] += reason.count
            for cause, count in causes.items():
                yield "jaxobs_recompilations_total", (label, cause), count, (name, cause)
        for phase, histogram in compiles.phases.items():
            yield "jaxobs_compile_seconds", (phase,), histogram
        for name, age in view.process.compiling.items():
            yield "jaxobs_compiling_seconds", (name,), age
        for cause, amount in compiles.recompilations.seconds.items():
            yield "jaxobs_recompilation_seconds_total", (cause,), amount
        yield "jaxobs_persistent_cache_enabled", (), compilation.persistent_cache.enabled.value
        yield "jaxobs_persistent_cache_saved_seconds_total", (), compiles.cache.seconds_gained

    def _process(self, view: SnapshotView) -> Iterator[Sample]:
        facts, identity, process, agent = view.facts, view.identity, view.process, view.agent
        versions = (
            facts.get("jaxobs"), identity["jax"], identity["jaxlib"], identity["platform"], facts.get("agent"),
            process.address.value,
        )  # fmt: skip
        yield "jaxobs_build_info", tuple(str(part or "") for part in versions), 1.0
        yield "jaxobs_run_info", tuple(self._rooms.resource.get(name, "") for name in RUN_LABELS), 1.0
        yield "jaxobs_goodput_ratio", (), process.goodput.value
        for category, spent in process.run_seconds.items():
            yield "jaxobs_run_seconds_total", (category,), spent
        for phase, spent in process.phase_seconds.items():
            yield "jaxobs_phase_seconds_total", (phase,), spent
        if process.memory.value is not None:
            for key, metric in MEMORY_OF_THE_PROCESS.items():
                yield metric, (), getattr(process.memory.value, key).value
        last_heard = self._wall_time(self._rooms.observation.last_heard)
        yield "jaxobs_job_last_heard_timestamp_seconds", (), last_heard
        yield "jaxobs_agent_resident_bytes", (), agent["resident_bytes"]
        for outcome in ("accepted", "dropped", "refused"):
            yield "jaxobs_events_total", (outcome,), agent[f"events_{outcome}"]
        yield "jaxobs_events_emitted_total", (), agent["events_emitted"]
        yield "jaxobs_listener_restored_total", (), agent["listeners_restored"]
        for where in ("probe", "agent"):
            yield "jaxobs_agent_cpu_seconds_total", (where,), agent["cpu_seconds"][where]

    def _sources(self, sources: Mapping[str, SourceState]) -> Iterator[Sample]:
        for name, (report, lost) in sources.items():
            yield "jaxobs_source_up", (name,), is_up(report)
            last_success = self._wall_time(report.last_success)
            yield "jaxobs_source_last_success_timestamp_seconds", (name,), last_success
            yield "jaxobs_source_seconds_total", (name,), report.seconds
            if report.kind == "exporter":
                yield "jaxobs_exporter_failures_total", (report.source,), report.failures
                yield "jaxobs_exporter_dropped_total", (report.source,), lost[0] if lost else None

    def _wall_time(self, monotonic: int | None) -> float | None:
        """Unix seconds of an instant in monotonic nanoseconds."""
        return None if monotonic is None else self._rooms.clock.unix_seconds(monotonic)

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
            **view.operations.under("operations"),
            **view.device_time().under("device_time"),
            **view.memory_peaks.under("memory_peaks"),
            **view.devices.under("devices"),
            "sources": {name: source_view(source) for name, source in view.sources.items()},
            "agent": view.agent,
            "advice": advice,
        }


def _recorded(labels: Labels, recorded: RecordedValue) -> Iterator[Sample]:
    yield "jaxobs_recorded", labels, recorded.figure().value
    yield "jaxobs_recorded_not_finite_total", labels, recorded.not_finite
    yield "jaxobs_recorded_leaps_total", labels, recorded.leaps


def _executable(view: ExecutableView) -> Iterator[Sample]:
    labels = view.labels
    if (cost := view.cost.value) is not None:
        yield "jaxobs_executable_flops", labels, cost.flops
        yield "jaxobs_executable_bytes", labels, cost.bytes
        yield "jaxobs_executable_intensity_flops_per_byte", labels, cost.intensity
    yield "jaxobs_executable_achieved_flops_per_second", labels, view.achieved_flops_per_second.value
    yield "jaxobs_executable_attainable_flops_per_second", labels, view.attainable_flops_per_second.value
    yield "jaxobs_executable_efficiency_ratio", labels, view.efficiency.value
    if view.seconds_per_run.value is not None:
        limits = view.bottleneck.label, view.bottleneck.runner_up or ""
        yield "jaxobs_executable_bottleneck_info", labels + limits, 1.0
    for kind, amount in (view.memory.value or {}).items():
        yield "jaxobs_executable_memory_bytes", (*labels, kind), float(amount)


def _peak_buffers(largest: Sequence[Executable]) -> Iterator[Sample]:
    """The largest buffers of the first executable."""
    memory = largest[0].peak_memory.value if largest else None
    if memory is None:
        return
    found = Counter[Labels]()
    for buffer in memory.buffers:
        alike = largest[0].function, buffer.kind, buffer.operation, str(buffer.shape), buffer.dtype
        found[alike] += buffer.bytes
    for labels, size in found.most_common(MAX_BUFFERS):
        yield "jaxobs_executable_peak_buffer_bytes", labels, float(size)


def _device(device: DeviceView) -> Iterator[Sample]:
    ordinal = str(device.device)
    yield "jaxobs_device_info", (ordinal, device.kind, device.uuid), 1.0
    if (peaks := device.peaks.value) is not None:
        for dtype, peak in peaks.matrix.items():
            yield "jaxobs_device_peak_flops_per_second", (ordinal, dtype), peak.value
            yield "jaxobs_device_peak_info", (ordinal, dtype, peak.provenance), 1.0
        if peaks.memory is not None:
            yield "jaxobs_device_peak_bytes_per_second", (ordinal,), peaks.memory.value
            yield "jaxobs_device_peak_info", (ordinal, "memory", peaks.memory.provenance), 1.0
    if (clocks := device.clocks.value) is not None:
        yield "jaxobs_device_utilization_ratio", (ordinal,), clocks.utilization_ratio.value
        yield "jaxobs_device_clock_ratio", (ordinal,), clocks.clock_ratio.value
        for reason in clocks.throttle_reasons.value or ():
            yield "jaxobs_device_throttled_info", (ordinal, reason), 1.0
    if (memory := device.memory.value) is not None:
        for key, metric in MEMORY_OF_DEVICES.items():
            yield metric, (ordinal,), getattr(memory, key).value


def _live_arrays(live: LiveArrays | None) -> Iterator[Sample]:
    """Counts and bytes by shape, type and sharding, and bytes by line: the largest of each, and the rest in one."""
    if live is None:
        return
    groups, lines = live.groups[:MAX_GROUPS], (live.lines.value or ())[:MAX_LINES]
    for group in groups:
        labels = (group["shape"], group["dtype"], group["sharding"])
        yield "jaxobs_live_arrays", labels, group["count"]
        yield "jaxobs_live_arrays_bytes", labels, group["bytes"]
    for line in lines:
        yield "jaxobs_live_arrays_line_bytes", (line["line"] or UNKNOWN_LINE,), line["bytes"]
    others = (OTHER, OTHER, OTHER)
    yield "jaxobs_live_arrays", others, max(0, live.count - sum(group["count"] for group in groups))
    yield "jaxobs_live_arrays_bytes", others, max(0, live.bytes - sum(group["bytes"] for group in groups))
    if lines:
        rest = max(0, live.bytes - sum(line["bytes"] for line in lines))
        yield "jaxobs_live_arrays_line_bytes", (OTHER,), rest
