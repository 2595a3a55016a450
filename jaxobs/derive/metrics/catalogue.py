"""The metrics that the core derives. Names, types and labels are relied on from outside: panels, alerts, recordings.

Longer than other files: it is a table, and whoever looks a name up wants one.
"""

from __future__ import annotations

from typing import Final

from jaxobs.model.metrics import Metric

PREFERRED: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Ten numbers a decade, a quarter apart (the series R10 of ISO 3)."""

STEP_BUCKETS: Final = (
    *(round(number * 10.0**decade, 8) for decade in range(-4, 2) for number in PREFERRED),
    100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 600.0,
)  # fmt: skip
"""So near to each other that quantiles between them are right to about a tenth."""

HOST_STEP_BUCKETS: Final = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0,
)  # fmt: skip
COMPILE_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip

BUILD_INFO = Metric(
    "jaxobs_build_info", "gauge", "Versions, platform, and where the agent runs (process or inline).",
    ("version", "jax", "jaxlib", "platform", "agent", "address"),
)  # fmt: skip
RUN_INFO = Metric(
    "jaxobs_run_info", "gauge", "Which run this process belongs to, and as what. A label is empty where it is not known.",
    ("run", "attempt", "rank", "host", "user"),
)  # fmt: skip
LAST_HEARD = Metric(
    "jaxobs_job_last_heard_timestamp_seconds", "gauge",
    "When the agent last heard of the training process, in Unix time; about once a second.", (), "seconds",
)  # fmt: skip
STEPS = Metric("jaxobs_steps_total", "counter", "Steps that ended.", ("loop",))
STEPS_FAILED = Metric("jaxobs_steps_failed_total", "counter", "Steps that raised.", ("loop",))
STEP_SECONDS = Metric(
    "jaxobs_step_seconds", "histogram",
    "What a step takes: each turn of a host that waits for the device, else the spacing of completions on the device, "
    "averaged between samples; the host's turn where nothing is watched.",
    ("loop",), "seconds", STEP_BUCKETS,
)  # fmt: skip
STEP_HOST_SECONDS = Metric(
    "jaxobs_step_host_seconds",
    "histogram",
    "The host's turn of the loop.",
    ("loop",),
    "seconds",
    HOST_STEP_BUCKETS,
)
LAST_STEP = Metric(
    "jaxobs_last_step_timestamp_seconds",
    "gauge",
    "When the last step ended, in Unix time.",
    ("loop",),
    "seconds",
)
COMPONENT_SECONDS = Metric(
    "jaxobs_step_component_seconds_total", "counter",
    "Where the loop's wall time went; the components of a loop add up to it.", ("loop", "component"), "seconds",
)  # fmt: skip
HOST_LINE_SECONDS = Metric(
    "jaxobs_host_line_sampled_seconds_total", "counter",
    "Where the main thread was, by samples of its Python stack: the lines with most time, and the rest. `loop` is empty "
    "outside steps.",
    ("loop", "line", "waits_in", "activity"), "seconds",
)  # fmt: skip
RUN_SECONDS = Metric(
    "jaxobs_run_seconds_total", "counter", "Where the process's time went; the categories add up to its age.",
    ("category",), "seconds",
)  # fmt: skip
GOODPUT = Metric("jaxobs_goodput_ratio", "gauge", "Productive share of the process's age.", (), "ratio")
EXAMPLES = Metric(
    "jaxobs_examples_total", "counter", "Examples of ended steps, this process's share.", ("loop",)
)
TOKENS = Metric("jaxobs_tokens_total", "counter", "Tokens of ended steps, this process's share.", ("loop",))
RECORDED = Metric("jaxobs_recorded", "gauge", "The user's own values, by obs.record().", ("loop", "name"))
BOTTLENECK = Metric(
    "jaxobs_bottleneck_ratio", "gauge", "Share of the last window's wall time; adds up to 1.",
    ("loop", "bottleneck"), "ratio",
)  # fmt: skip
BOTTLENECK_CONFIDENCE = Metric(
    "jaxobs_bottleneck_confidence_ratio", "gauge", "How sure the bottleneck's label is.", ("loop",), "ratio"
)
BOTTLENECK_INFO = Metric(
    "jaxobs_bottleneck_info", "gauge", "The bottleneck's label and its runner-up.",
    ("loop", "bottleneck", "runner_up"),
)  # fmt: skip
ADVICE_INFO = Metric(
    "jaxobs_advice_info", "gauge", "Advice given now; what it says is in the snapshot and in docs/advice.md.",
    ("condition", "loop", "function"),
)  # fmt: skip
ADVICE_SAVES = Metric(
    "jaxobs_advice_saves_ratio", "gauge", "Share of wall time that the advice would give back.",
    ("condition", "loop", "function"), "ratio",
)  # fmt: skip
ADVICE_SAVES_BYTES = Metric(
    "jaxobs_advice_saves_bytes", "gauge", "Device memory that the advice would give back.",
    ("condition", "loop", "function"), "bytes",
)  # fmt: skip
MFU = Metric(
    "jaxobs_mfu_ratio", "gauge", "Model FLOPs utilization: matrix FLOPs without rematerialised ones, over wall time "
    "and matrix peak, in the last window, without the compiles that a loop begins with.", ("loop",), "ratio",
)  # fmt: skip
HFU = Metric(
    "jaxobs_hfu_ratio",
    "gauge",
    "Hardware FLOPs utilization: as MFU, with rematerialised FLOPs.",
    ("loop",),
    "ratio",
)
FLOPS = Metric(
    "jaxobs_flops_total", "counter", "Modelled matrix FLOPs of watched runs on this process's devices.",
    ("loop", "dtype", "kind"),
    "flops",
)  # fmt: skip
BYTES = Metric(
    "jaxobs_bytes_total", "counter", "Modelled device-memory bytes of watched runs on this process's devices.",
    ("loop",), "bytes",
)  # fmt: skip
BOUND_SECONDS = Metric(
    "jaxobs_bound_seconds_total", "counter", "Least time that watched runs could have taken, by what bounds them.",
    ("loop", "bound"), "seconds",
)  # fmt: skip
COMPILATIONS = Metric("jaxobs_compilations_total", "counter", "Executables made.", ("function",))
COMPILE_SECONDS = Metric(
    "jaxobs_compile_seconds", "histogram", "Durations of compile phases, each without what is nested in it.",
    ("phase",), "seconds", COMPILE_BUCKETS,
)  # fmt: skip
COMPILE_FUNCTION_SECONDS = Metric(
    "jaxobs_compile_function_seconds_total", "counter", "Time spent compiling, by function and phase.",
    ("function", "phase"), "seconds",
)  # fmt: skip
COMPILING = Metric(
    "jaxobs_compiling_seconds", "gauge", "Age of a compile in flight; absent when there is none.", ("function",),
    "seconds",
)  # fmt: skip
RECOMPILATIONS = Metric(
    "jaxobs_recompilations_total", "counter", "Executables made for a function that had one already, by cause.",
    ("function", "cause"),
)  # fmt: skip
RECOMPILATION_SECONDS = Metric(
    "jaxobs_recompilation_seconds_total", "counter", "Time that such executables took to trace, lower and compile.",
    ("cause",), "seconds",
)  # fmt: skip
CACHE_ENABLED = Metric(
    "jaxobs_persistent_cache_enabled",
    "gauge",
    "1 where the last compile could use JAX's persistent compilation cache.",
)
CACHE_SECONDS_SAVED = Metric(
    "jaxobs_persistent_cache_saved_seconds_total", "counter",
    "Compile time saved by the persistent cache, less the time to read it, as JAX reports it; losses are not deducted.",
    (), "seconds",
)  # fmt: skip
EXECUTABLE_FLOPS = Metric(
    "jaxobs_executable_flops", "gauge", "FLOPs of one run on one device.", ("function", "executable"), "flops"
)
EXECUTABLE_BYTES = Metric(
    "jaxobs_executable_bytes", "gauge", "Device-memory bytes of one run on one device.", ("function", "executable"),
    "bytes",
)  # fmt: skip
EXECUTABLE_INTENSITY = Metric(
    "jaxobs_executable_intensity_flops_per_byte", "gauge", "Arithmetic intensity.", ("function", "executable"),
    "flops_per_byte",
)  # fmt: skip
EXECUTABLE_RUNS = Metric(
    "jaxobs_executable_runs_total", "counter", "Runs of watched functions.", ("function", "executable")
)
EXECUTABLE_SECONDS = Metric(
    "jaxobs_executable_seconds_total", "counter", "Device time: sampled run times runs, within the loops' wall time.",
    ("function", "executable"), "seconds",
)  # fmt: skip
EXECUTABLE_ACHIEVED = Metric(
    "jaxobs_executable_achieved_flops_per_second", "gauge", "FLOPs of a run over its device time.",
    ("function", "executable"), "flops_per_second",
)  # fmt: skip
EXECUTABLE_ATTAINABLE = Metric(
    "jaxobs_executable_attainable_flops_per_second", "gauge", "FLOPs of a run over its bound time.",
    ("function", "executable"), "flops_per_second",
)  # fmt: skip
EXECUTABLE_EFFICIENCY = Metric(
    "jaxobs_executable_efficiency_ratio", "gauge",
    "Bound time over device time; above 1 where data stayed in cache.", ("function", "executable"), "ratio",
)  # fmt: skip
EXECUTABLE_BOTTLENECK = Metric(
    "jaxobs_executable_bottleneck_info", "gauge", "What bounds the executable.",
    ("function", "executable", "bottleneck", "runner_up"),
)  # fmt: skip
EXECUTABLE_MEMORY = Metric(
    "jaxobs_executable_memory_bytes", "gauge", "XLA's memory analysis, on one device.",
    ("function", "executable", "kind"), "bytes",
)  # fmt: skip
PROFILE_WINDOWS = Metric(
    "jaxobs_profile_windows_total", "counter",
    "Sessions of JAX's profiler, ours and the job's own, by what became of them.", ("outcome",),
)  # fmt: skip
PROFILED_SECONDS = Metric(
    "jaxobs_profiled_seconds_total", "counter", "Wall time of the loop's steps inside profiler windows.", ("loop",),
    "seconds",
)  # fmt: skip
PROFILED_STEPS = Metric(
    "jaxobs_profiled_steps_total", "counter", "Steps inside profiler windows; of one half inside, half a step.",
    ("loop",),
)  # fmt: skip
OPERATION_SECONDS = Metric(
    "jaxobs_operation_sampled_seconds_total", "counter",
    "Device time of the largest operations, summed over profiler windows and this process's devices; moments that "
    "several share are divided equally.",
    ("function", "operation", "category"), "seconds",
)  # fmt: skip
OPERATION_FLOPS = Metric(
    "jaxobs_operation_sampled_flops_total", "counter", "Modelled FLOPs of these operations in profiler windows.",
    ("function", "operation", "category"), "flops",
)  # fmt: skip
OPERATION_BYTES = Metric(
    "jaxobs_operation_sampled_bytes_total", "counter",
    "Modelled device-memory bytes of these operations in profiler windows.", ("function", "operation", "category"),
    "bytes",
)  # fmt: skip
OPERATION_INFO = Metric(
    "jaxobs_operation_info", "gauge", "Named scope and source line of an operation.",
    ("function", "operation", "scope", "source"),
)  # fmt: skip
UNMODELLED = Metric(
    "jaxobs_unmodelled_ratio", "gauge",
    "Share of a function's device time, in profiler windows, in operations whose work is not known.", ("function",),
    "ratio",
)  # fmt: skip
DEVICE_UTILIZATION = Metric(
    "jaxobs_device_utilization_ratio", "gauge", "Share of time in which the device was busy, as its collector says.",
    ("device",), "ratio",
)  # fmt: skip
DEVICE_CLOCK = Metric(
    "jaxobs_device_clock_ratio", "gauge",
    "Clock of the computing units over their highest, as the device's collector says.", ("device",), "ratio",
)  # fmt: skip
DEVICE_THROTTLED = Metric(
    "jaxobs_device_throttled_info", "gauge", "1 for each reason that holds the clocks down now.", ("device", "reason")
)  # fmt: skip
DEVICE_INFO = Metric(
    "jaxobs_device_info",
    "gauge",
    "This process's devices by local ordinal.",
    ("device", "device_kind", "uuid"),
)
PEAK_FLOPS = Metric(
    "jaxobs_device_peak_flops_per_second", "gauge", "Peak of the device's matrix unit.", ("device", "dtype"),
    "flops_per_second",
)  # fmt: skip
PEAK_BYTES = Metric(
    "jaxobs_device_peak_bytes_per_second", "gauge", "Peak bandwidth of the device's memory.", ("device",),
    "bytes_per_second",
)  # fmt: skip
PEAK_INFO = Metric(
    "jaxobs_device_peak_info", "gauge", "Where a peak comes from; dtype is `memory` for the bandwidth.",
    ("device", "dtype", "provenance"),
)  # fmt: skip
CEILING = Metric(
    "jaxobs_roofline_ceiling_flops_per_second", "gauge", "The roof at log-spaced intensities.",
    ("device_kind", "dtype", "intensity"), "flops_per_second",
)  # fmt: skip
DEVICE_MEMORY_IN_USE = Metric(
    "jaxobs_device_memory_in_use_bytes", "gauge", "Memory of the device that JAX's allocator has given out.",
    ("device",), "bytes",
)  # fmt: skip
DEVICE_MEMORY_PEAK = Metric(
    "jaxobs_device_memory_peak_bytes", "gauge", "The most that was in use at a time.", ("device",), "bytes"
)
DEVICE_MEMORY_LIMIT = Metric(
    "jaxobs_device_memory_limit_bytes", "gauge", "What JAX's allocator may give out.", ("device",), "bytes"
)
DEVICE_MEMORY_LARGEST_FREE = Metric(
    "jaxobs_device_memory_largest_free_bytes", "gauge", "The largest free block: no array can be larger without growth "
    "of the pool.", ("device",), "bytes",
)  # fmt: skip
DEVICE_MEMORY_FRAGMENTED = Metric(
    "jaxobs_device_memory_fragmented_bytes", "gauge", "Free memory outside the largest free block.", ("device",),
    "bytes",
)  # fmt: skip
DEVICE_MEMORY_EXHAUSTION = Metric(
    "jaxobs_device_memory_exhaustion_seconds", "gauge", "When memory in use reaches the limit if it goes on growing so; "
    "absent unless it grows steadily.", ("device",), "seconds",
)  # fmt: skip
PROCESS_MEMORY_PEAK = Metric(
    "jaxobs_process_memory_peak_bytes",
    "gauge",
    "The most physical memory the training process had.",
    (),
    "bytes",
)
PROCESS_MEMORY_LIMIT = Metric(
    "jaxobs_process_memory_limit_bytes", "gauge", "What it can have: its container's limit, or the host's memory.", (),
    "bytes",
)  # fmt: skip
PROCESS_MEMORY_EXHAUSTION = Metric(
    "jaxobs_process_memory_exhaustion_seconds", "gauge", "When its memory reaches that limit if it goes on growing so; "
    "absent unless it grows steadily.", (), "seconds",
)  # fmt: skip
LIVE_ARRAYS = Metric(
    "jaxobs_live_arrays", "gauge", "Arrays alive on this process's devices; the largest groups, and the rest.",
    ("shape", "dtype", "sharding"), "arrays",
)  # fmt: skip
LIVE_ARRAYS_BYTES = Metric(
    "jaxobs_live_arrays_bytes", "gauge", "Their bytes on this process's devices.", ("shape", "dtype", "sharding"),
    "bytes",
)  # fmt: skip
LIVE_ARRAYS_LINE_BYTES = Metric(
    "jaxobs_live_arrays_line_bytes", "gauge", "Bytes of live arrays by the line of the program that made them.",
    ("line",), "bytes",
)  # fmt: skip
SOURCE_UP = Metric(
    "jaxobs_source_up", "gauge",
    "1 where the plugin works, 0 where it failed; absent where there is nothing for it to read.", ("source",),
)  # fmt: skip
SOURCE_LAST_SUCCESS = Metric(
    "jaxobs_source_last_success_timestamp_seconds", "gauge", "When the plugin last worked, in Unix time.", ("source",),
    "seconds",
)  # fmt: skip
SOURCE_SECONDS = Metric(
    "jaxobs_source_seconds_total", "counter", "Time spent in the plugin.", ("source",), "seconds"
)
LISTENERS_RESTORED = Metric(
    "jaxobs_listener_restored_total",
    "counter",
    "Times that JAX's listeners had been cleared and were put back.",
)
EVENTS = Metric(
    "jaxobs_events_total", "counter", "Events of the job and the agent, by what became of them.", ("outcome",)
)
EVENTS_EMITTED = Metric(
    "jaxobs_events_emitted_total",
    "counter",
    "Events that the job and the agent have emitted; those in no count of jaxobs_events_total are on their way.",
)
AGENT_CPU = Metric(
    "jaxobs_agent_cpu_seconds_total", "counter", "CPU time of jaxobs: its threads in the job, and the agent.",
    ("where",), "seconds",
)  # fmt: skip
AGENT_RESIDENT = Metric("jaxobs_agent_resident_bytes", "gauge", "Resident memory of the agent.", (), "bytes")
EXPORTER_FAILURES = Metric(
    "jaxobs_exporter_failures_total", "counter", "Failed turns of an exporter.", ("exporter",)
)
EXPORTER_DROPPED = Metric(
    "jaxobs_exporter_dropped_total", "counter", "Events and spans that an exporter is known to have lost.",
    ("exporter",),
)  # fmt: skip
SERIES_LIMITED = Metric(
    "jaxobs_series_limited_total",
    "counter",
    "Updates that found no series of their own, by metric.",
    ("metric",),
)
CONTRADICTIONS = Metric(
    "jaxobs_contradictions_total", "counter", "Figures that were withheld because another contradicts them, each once.",
    ("figure",),
)  # fmt: skip

CORE_METRICS: Final[tuple[Metric, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
