"""The one place that writes: the series of `/metrics` and the document of a snapshot, both from its view.

A room keeps what it has counted and shows it as a view of plain figures; it knows no metric. What is shown of one
subject as series is one function here, `_write_…`, called by `Writer.write`. A room joins so:

1. Its view has the figures (a field of `SnapshotView`): gauges and totals as they are now, and what was observed event
   by event as a `HistogramValue`, of a `Histogram` that the room fills with `observe`.
2. Here a gauge is written by `replace`, with all its labels at once, so that a series whose figure is gone goes as well;
   a counter by `total`, with the whole amount, and never by its increase; a histogram by `show`.
3. Where functions or executables share a limit on series, the view names those that have series of their own, and the
   total of any other goes to `__other__` with its own key as `of`: the rise goes to the labels that the key has now, no
   series falls, and `rate()` stays true when the choice changes. Only what changed needs to be written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jaxobs.derive.compilation import CompilationView
from jaxobs.derive.devices import DeviceView
from jaxobs.derive.memory import DeviceMemory, LiveArrays
from jaxobs.derive.metrics.catalogue import (
    compilation_metrics,
    device_metrics,
    memory_metrics,
    process_metrics,
)
from jaxobs.derive.metrics.series import Labels, Series
from jaxobs.derive.process import RUN_LABELS, SourceState, is_up, source_view
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.model.clock import NANOSECONDS, ClockAnchor
from jaxobs.model.figure import Figure, Rows, plain
from jaxobs.roofline_model.bounds import ceiling
from jaxobs.vocabulary.text import OTHER
from jaxobs.vocabulary.words import PHASES

MAX_GROUPS = 20
MAX_LINES = 10
"""Groups of live arrays, and lines that made them, with series of their own; the rest are summed in one more series."""

UNKNOWN_LINE = "(unknown)"

DEVICE_MEMORY = (
    (memory_metrics.DEVICE_MEMORY_IN_USE, "in_use_bytes"),
    (memory_metrics.DEVICE_MEMORY_PEAK, "peak_bytes"),
    (memory_metrics.DEVICE_MEMORY_LIMIT, "limit_bytes"),
    (memory_metrics.DEVICE_MEMORY_LARGEST_FREE, "largest_free_block_bytes"),
    (memory_metrics.DEVICE_MEMORY_FRAGMENTED, "fragmented_bytes"),
    (memory_metrics.DEVICE_MEMORY_EXHAUSTION, "forecast_seconds"),
)
PROCESS_MEMORY = (
    (memory_metrics.PROCESS_MEMORY_PEAK, "peak_bytes"),
    (memory_metrics.PROCESS_MEMORY_LIMIT, "limit_bytes"),
    (memory_metrics.PROCESS_MEMORY_EXHAUSTION, "forecast_seconds"),
)
"""Metrics of memory, each with the figure of the view that it shows."""

Advice = list[dict[str, Any]]


class Writer:
    """Writes series and documents of one job's snapshots."""

    def __init__(self, series: Series, clock: ClockAnchor) -> None:
        self._series = series
        self._clock = clock
        self._ceilings: dict[tuple[str, str], tuple[tuple[float, float], ...]] = {}
        self._functions, self._executables, self._operations, self._scopes = Rows(), Rows(), Rows(), Rows()
        for phase in PHASES:  # closed sets of labels start at 0
            series.total(compilation_metrics.COMPILE_FUNCTION_SECONDS, (OTHER, phase), 0.0)

    def write(self, view: SnapshotView, advice: Advice) -> None:
        """Bring all series up to date with a snapshot and the advice that was derived from it."""
        _write_compilation(view.compilation, self._series)
        self._write_devices(view.devices.value or ())
        _write_memory(view, self._series)
        self._write_process(view)
        self._write_sources(view.sources)
        _write_advice(advice, self._series)

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
                for drawn in device.roofs:
                    at = (device.kind, drawn["dtype"])
                    if at not in self._ceilings:
                        self._ceilings[at] = ceiling(known.peaks, drawn["dtype"])
            if (reading := device.clocks.value) is not None:
                utilization.append(((ordinal,), reading.utilization_ratio.value))
                clocks.append(((ordinal,), reading.clock_ratio.value))
                throttled += [((ordinal, why), 1.0) for why in reading.throttle_reasons.value or ()]
        replace = self._series.replace
        replace(device_metrics.DEVICE_INFO, info)
        replace(device_metrics.PEAK_FLOPS, flops)
        replace(device_metrics.PEAK_BYTES, memory)
        replace(device_metrics.PEAK_INFO, sources)
        replace(device_metrics.CEILING, self._ceiling_points())
        replace(device_metrics.DEVICE_UTILIZATION, utilization)
        replace(device_metrics.DEVICE_CLOCK, clocks)
        replace(device_metrics.DEVICE_THROTTLED, throttled)

    def _ceiling_points(self) -> Iterator[tuple[Labels, float]]:
        for at, points in self._ceilings.items():
            for intensity, rate in points:
                yield (*at, f"{intensity:.6g}"), rate

    def _write_process(self, view: SnapshotView) -> None:
        series, identity, agent = self._series, view.identity, view.agent
        versions = (
            str(view.facts.get("jaxobs", "")), identity.jax.value or "", identity.jaxlib.value or "",
            identity.platform.value or "", str(view.facts.get("agent", "")), view.process.address.value or "",
        )  # fmt: skip
        series.replace(process_metrics.BUILD_INFO, [(versions, 1.0)])
        run = tuple(view.resource.get(name, "") for name in RUN_LABELS)
        series.replace(process_metrics.RUN_INFO, [(run, 1.0)])
        series.set(process_metrics.LAST_HEARD, (), self._wall_time(view.last_heard))
        series.total(process_metrics.EVENTS, ("accepted",), agent.events_accepted)
        series.total(process_metrics.EVENTS, ("dropped",), agent.events_dropped)
        series.total(process_metrics.EVENTS, ("refused",), agent.events_refused)
        series.total(process_metrics.EVENTS_EMITTED, (), agent.events_emitted)
        series.total(process_metrics.LISTENERS_RESTORED, (), agent.listeners_restored)
        series.total(process_metrics.AGENT_CPU, ("probe",), agent.cpu_seconds.probe)
        if agent.cpu_seconds.agent.value is not None:
            series.total(process_metrics.AGENT_CPU, ("agent",), agent.cpu_seconds.agent.value)
        series.set(process_metrics.AGENT_RESIDENT, (), agent.resident_bytes.value)
        for figure, count in view.contradictions.items():
            series.total(process_metrics.CONTRADICTIONS, (figure,), count)

    def _write_sources(self, sources: Mapping[str, SourceState]) -> None:
        series = self._series
        series.replace(
            process_metrics.SOURCE_UP, (((name,), is_up(each.report)) for name, each in sources.items())
        )
        succeeded = (((name,), self._wall_time(each.report.last_success)) for name, each in sources.items())
        series.replace(process_metrics.SOURCE_LAST_SUCCESS, succeeded)
        for name, (report, lost) in sources.items():
            series.total(process_metrics.SOURCE_SECONDS, (name,), report.seconds)
            if report.kind == "exporter":
                series.total(process_metrics.EXPORTER_FAILURES, (report.source,), report.failures)
                if lost is not None:
                    series.total(process_metrics.EXPORTER_DROPPED, (report.source,), lost[0])

    def _wall_time(self, monotonic: int | None) -> float | None:
        """Unix seconds of an instant in monotonic nanoseconds."""
        return None if monotonic is None else self._clock.wall_time(monotonic) / NANOSECONDS

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
            "process": plain(view.identity) | plain(view.facts) | plain(view.process),
            "loops": plain(view.loops),
            "functions": dict(zip(functions, rows, strict=True)),
            **plain(view.compilation.left_out),
            "executables": self._executables.written(view.executables),
            **view.executables_left_out.under("executables_left_out"),
            **_table(view.operations, self._operations).under("operations"),
            **_table(view.scopes, self._scopes).under("scopes"),
            **view.devices.under("devices"),
            "sources": {name: plain(source_view(source)) for name, source in view.sources.items()},
            "agent": plain(view.agent),
            "advice": advice,
        }


def _table(figure: Figure[list[Any]], rows: Rows) -> Figure[list[Any]]:
    return figure if figure.value is None else Figure(rows.written(figure.value), figure.reason)


def _write_compilation(view: CompilationView, series: Series) -> None:
    metrics = compilation_metrics
    for name, function in view.changed.items():
        label = name if name in view.with_series else OTHER
        series.total(metrics.COMPILATIONS, (label,), function.compilations, (name,))
        for phase, amount in function.seconds.items():
            if amount:
                series.total(metrics.COMPILE_FUNCTION_SECONDS, (label, phase), amount, (name, phase))
        causes: dict[str, int] = {}
        for reason in function.recompilations:
            causes[reason.cause] = causes.get(reason.cause, 0) + reason.count
        for cause, count in causes.items():
            series.total(metrics.RECOMPILATIONS, (label, cause), count, (name, cause))
    for phase, histogram in view.phase_seconds.items():
        series.show(metrics.COMPILE_SECONDS, (phase,), histogram)
    for cause, amount in view.recompilation_seconds.items():
        series.total(metrics.RECOMPILATION_SECONDS, (cause,), amount)
    series.replace(metrics.COMPILING, (((name,), age) for name, age in view.in_progress.items()))
    series.set(metrics.CACHE_ENABLED, (), view.persistent_cache.enabled.value)
    series.total(metrics.CACHE_SECONDS_SAVED, (), view.seconds_gained)


def _write_memory(view: SnapshotView, series: Series) -> None:
    devices: list[tuple[int, DeviceMemory]] = [
        (each.device, each.memory.value) for each in view.devices.value or () if each.memory.value
    ]
    for metric, key in DEVICE_MEMORY:
        series.replace(metric, (((str(at),), getattr(memory, key).value) for at, memory in devices))
    process = view.process.memory.value
    for metric, key in PROCESS_MEMORY:
        series.set(metric, (), None if process is None else getattr(process, key).value)
    counts, sizes, lines = _live_arrays(view.process.live_arrays.value)
    series.replace(memory_metrics.LIVE_ARRAYS, counts.items())
    series.replace(memory_metrics.LIVE_ARRAYS_BYTES, sizes.items())
    series.replace(memory_metrics.LIVE_ARRAYS_LINE_BYTES, lines.items())


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
    series.replace(process_metrics.ADVICE_INFO, ((labels, 1.0) for labels, _ in places))
    series.replace(
        process_metrics.ADVICE_SAVES, ((labels, piece.get("saves_ratio")) for labels, piece in places)
    )
    series.replace(
        process_metrics.ADVICE_SAVES_BYTES, ((labels, piece.get("saves_bytes")) for labels, piece in places)
    )
