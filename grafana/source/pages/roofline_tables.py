"""Tables beside the roofline: executables, operations, and the peaks that all is measured against."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Override, Query, columns
from grafana.source.expressions import ON_DEVICE, by, grown, selected
from grafana.source.links import TRACES_OF_COMPILES
from grafana.source.look import GOOD_WHEN_HIGH, NO_PEAK
from grafana.source.pages.roofline_queries import (
    EXECUTABLE,
    NO_WINDOWS,
    NOT_TIMED,
    OPERATION_POINTS,
    OPERATION_SECONDS,
    TIME,
    executable,
)

EXECUTABLES: Final = Chart(
    "Executables", "Each executable of a watched function: how near it comes to its roof, what bounds it, its share of "
    "the device time in this range. A click on a function offers the traces of its compiles.",
    (
        Query(executable("jaxobs_executable_efficiency_ratio"), name="efficiency", table=True),
        Query(by("max", f"{EXECUTABLE}, bottleneck", selected("jaxobs_executable_bottleneck_info")), name="bound",
              table=True),
        Query(f"{TIME} / on (run, run_id) group_left () (sum by (run, run_id) ({TIME}) > 0)", name="share", table=True),
        Query(executable("jaxobs_executable_intensity_flops_per_byte"), name="intensity", table=True),
        Query(executable("jaxobs_executable_achieved_flops_per_second"), name="achieved", table=True),
        Query(executable("jaxobs_executable_attainable_flops_per_second"), name="attainable", table=True),
        Query(executable("jaxobs_executable_flops"), name="flops", table=True),
        Query(executable("jaxobs_executable_bytes"), name="bytes", table=True),
        Query(f"round({by('sum', EXECUTABLE, grown('jaxobs_executable_runs_total'))})", name="runs",
              table=True),
    ),
    "short", "table", 24, 9, empty=NOT_TIMED, links=(TRACES_OF_COMPILES,),
    transformations=columns({
        "efficiency": "efficiency", "share": "share of device time", "intensity": "FLOP/byte", "achieved": "achieved",
        "attainable": "attainable", "flops": "FLOPs a run", "bytes": "bytes a run", "runs": "runs",
    }, hidden=("bound",), labels={"bottleneck": "bound by"}, largest="share of device time"),
    overrides=(
        Override("efficiency", {"unit": "percentunit", "thresholds": {"mode": "absolute", "steps": [
            {"color": colour, "value": value or None} for value, colour in GOOD_WHEN_HIGH
        ]}, "custom.cellOptions": {"type": "color-text"}}),
        Override("share of device time", {"unit": "percentunit"}),
        Override("achieved", {"unit": "flops"}), Override("attainable", {"unit": "flops"}),
        Override("bytes a run", {"unit": "bytes"}),
    ),
)  # fmt: skip

OPERATIONS: Final = Chart(
    "Largest operations", "From profiler windows: self time, what was achieved, the named scope and the source line.",
    (
        Query(OPERATION_SECONDS, name="seconds", table=True),
        Query(OPERATION_POINTS["achieved"], name="achieved", table=True),
        Query(OPERATION_POINTS["intensity"], name="intensity", table=True),
        Query(by("max", "run, function, operation, scope, source", selected("jaxobs_operation_info")), name="where",
              table=True),
    ),
    "short", "table", 24, 10, empty=NO_WINDOWS,
    transformations=columns({
        "seconds": "sampled time", "achieved": "achieved", "intensity": "FLOP/byte",
    }, hidden=("where",), largest="sampled time"),
    overrides=(Override("sampled time", {"unit": "s"}), Override("achieved", {"unit": "flops"})),
)  # fmt: skip


def _provenance(*matchers: str) -> str:
    """One series of two that differ in a target's label, as while the Collector has a new pod: the join takes one."""
    info = selected("jaxobs_device_peak_info", ON_DEVICE, *matchers)
    return f"max by (job, instance, device, dtype, provenance) ({info})"


_PEAK_FLOPS: Final = by(
    "max", "run, device, dtype, provenance",
    f"{selected('jaxobs_device_peak_flops_per_second', ON_DEVICE)} * on (job, instance, device, dtype) "
    f"group_left (provenance) {_provenance()}",
)  # fmt: skip
_OF_MEMORY: Final = _provenance('dtype="memory"')
_PEAK_BYTES: Final = by(
    "max", "run, device, dtype, provenance",
    f"{selected('jaxobs_device_peak_bytes_per_second', ON_DEVICE)} * on (job, instance, device) "
    f"group_left (dtype, provenance) {_OF_MEMORY}",
)  # fmt: skip

PEAKS: Final = Chart(
    "Peaks", "What one device can do, by element type and for its memory, and where the figure comes from.",
    (Query(_PEAK_FLOPS, name="flops", table=True), Query(_PEAK_BYTES, name="bytes", table=True)),
    "short", "table", 12, 8, empty=NO_PEAK,
    transformations=columns({"flops": "FLOP/s", "bytes": "bytes/s"}),
    overrides=(Override("FLOP/s", {"unit": "flops"}), Override("bytes/s", {"unit": "Bps"})),
)  # fmt: skip
