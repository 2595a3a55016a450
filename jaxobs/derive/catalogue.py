"""The metrics that the core derives. Panels, alerts and recordings outside rely on their names, types and labels.

`writer.py` sets each from a view.
"""

from __future__ import annotations

from typing import Final

from jaxobs.model.metrics import Metric
from jaxobs.model.metrics import metric as _metric

# The process and its observer: versions, the run, advice, events, plugins and what observing costs.
BUILD_INFO = _metric(
    "jaxobs_build_info{version,jax,jaxlib,platform,agent,address}",
    "Versions and platform; the agent is always a process.",
)
RUN_INFO = _metric(
    "jaxobs_run_info{run,run_id,attempt,rank,host,user,job_id,namespace,cluster,experiment}",
    "Which run this process belongs to; `run_id` tells runs of one name apart. An unknown label is empty.",
)
LAST_HEARD = _metric(
    "jaxobs_job_last_heard_timestamp_seconds",
    "When the agent last heard of the training process, in Unix time.",
)
RUN_SECONDS = _metric(
    "jaxobs_run_seconds_total{category}", "Where the process's time went; the categories add up to its age."
)
PHASE_SECONDS = _metric(
    "jaxobs_phase_seconds_total{phase}",
    "Time in phases that ended, of all threads together, without loops and other phases in them.",
)
HANG_SECONDS = _metric("jaxobs_hang_seconds{loop}", "For how long the loop has stood still; else 0.")
HANG_INFO = _metric(
    "jaxobs_hang_info{loop,activity,line}", "What the thread of a loop that stands still does, and where."
)
HANGS = _metric("jaxobs_hangs_total{loop}", "How often the loop stood still.")
SLOWDOWN_RATIO = _metric(
    "jaxobs_slowdown_ratio{loop}",
    "How many times as long a step takes since the loop became slower for good; 1 where it did not; absent while its "
    "pace is learned.",
)
SLOWDOWN_BEGAN = _metric(
    "jaxobs_slowdown_timestamp_seconds{loop}",
    "Since when the loop has been slower, in Unix time; absent where it is not.",
)
SLOWDOWN_INFO = _metric(
    "jaxobs_slowdown_info{loop,activity,line}",
    "What the thread of a loop that became slower spends the time on, and where.",
)
SLOWDOWNS = _metric("jaxobs_slowdowns_total{loop}", "How often the loop became slower for good.")
GOODPUT = _metric("jaxobs_goodput_ratio", "Productive share of the process's age.")
ADVICE_INFO = _metric(
    "jaxobs_advice_info{condition,loop,function}", "Advice given now; docs/reference/advice.md explains it."
)
ADVICE_SAVES = _metric(
    "jaxobs_advice_saves_ratio{condition,loop,function}",
    "Share of wall time that the advice would give back.",
)
ADVICE_SAVES_BYTES = _metric(
    "jaxobs_advice_saves_bytes{condition,loop,function}", "Device memory that the advice would give back."
)
SOURCE_UP = _metric(
    "jaxobs_source_up{source}",
    "1 where the plugin works, 0 where it failed; absent where it has nothing to read.",
)
SOURCE_LAST_SUCCESS = _metric(
    "jaxobs_source_last_success_timestamp_seconds{source}", "When the plugin last worked, in Unix time."
)
SOURCE_SECONDS = _metric("jaxobs_source_seconds_total{source}", "Time spent in the plugin.")
LISTENERS_RESTORED = _metric(
    "jaxobs_listener_restored_total", "Times that JAX's listeners had been cleared and were put back."
)
EVENTS = _metric("jaxobs_events_total{outcome}", "Events of the job and the agent, by what became of them.")
EVENTS_EMITTED = _metric(
    "jaxobs_events_emitted_total",
    "Events that the job and the agent have emitted, of which some are on their way.",
)
AGENT_CPU = _metric(
    "jaxobs_agent_cpu_seconds_total{where}", "CPU time of jaxobs: its threads in the job, and the agent."
)
AGENT_RESIDENT = _metric("jaxobs_agent_resident_bytes", "Resident memory of the agent.")
EXPORTER_FAILURES = _metric("jaxobs_exporter_failures_total{exporter}", "Failed turns of an exporter.")
EXPORTER_DROPPED = _metric(
    "jaxobs_exporter_dropped_total{exporter}", "Events and spans that an exporter is known to have lost."
)
SERIES_LIMITED = _metric(
    "jaxobs_series_limited_total{metric}", "Updates that found no series of their own, by metric."
)
CONTRADICTIONS = _metric(
    "jaxobs_contradictions_total{figure}", "Figures that were withheld because another contradicts them."
)

# Loops: steps, where their wall time went, and how well the device was used.
TEN_A_DECADE: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Bucket bounds of one decade, about a quarter apart (the series R10 of ISO 3)."""

FINE: Final = tuple(round(10 ** (part / 24), 2) for part in range(24))
"""Bucket bounds of one decade, a tenth apart."""

STEP_BUCKETS: Final = (
    *(round(number * 10.0**decade, 8) for decade in range(-5, 1) for number in FINE),
    *(number * 10.0 for number in TEN_A_DECADE),
    100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 600.0,
)  # fmt: skip
"""Steps that all take the same time lie in one bucket, and a quantile is read somewhere within it: a median is right to
5 %, and any other quantile to 10 %, from 10 µs (a jitted call takes 5 µs of the host) to 10 s, and to twice as much
beyond."""

HOST_STEP_BUCKETS: Final = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0,
)  # fmt: skip

STEPS = _metric("jaxobs_steps_total{loop}", "Steps that ended.")
STEPS_FAILED = _metric("jaxobs_steps_failed_total{loop}", "Steps that raised.")
STEP_SECONDS = _metric(
    "jaxobs_step_seconds{loop}",
    (
        "What a step takes: each turn of a host that waits for the device, else the mean between two completions that "
        "were seen; the host's turns where nothing is watched. A quantile between 10 µs and 10 s is right to 10 %, the "
        "median to 5 %."
    ),
    STEP_BUCKETS,
)
STEP_HOST_SECONDS = _metric(
    "jaxobs_step_host_seconds{loop}",
    "The host's turn of the loop: its mean is exact, its quantiles are rough.",
    HOST_STEP_BUCKETS,
)
LAST_STEP = _metric("jaxobs_last_step_timestamp_seconds{loop}", "When the last step ended, in Unix time.")
COMPONENT_SECONDS = _metric(
    "jaxobs_step_component_seconds_total{loop,component}",
    "Where the loop's wall time went; the components of a loop add up to it.",
)
HOST_LINE_SECONDS = _metric(
    "jaxobs_host_line_sampled_seconds_total{loop,line,waits_in,activity}",
    "Where the main thread was, by samples of its Python stack; `loop` is empty outside steps.",
)
EXAMPLES = _metric("jaxobs_examples_total{loop}", "Examples of ended steps, this process's share.")
TOKENS = _metric("jaxobs_tokens_total{loop}", "Tokens of ended steps, this process's share.")
RECORDED = _metric("jaxobs_recorded{loop,name}", "The user's own values, by obs.record().")
NOT_FINITE = _metric(
    "jaxobs_recorded_not_finite_total{loop,name}",
    "Values by obs.record() that were NaN or infinite; one a second is read.",
)
BOTTLENECK = _metric(
    "jaxobs_bottleneck_ratio{loop,bottleneck}", "Share of the last half minute's wall time; adds up to 1."
)
BOTTLENECK_CONFIDENCE = _metric(
    "jaxobs_bottleneck_confidence_ratio{loop}", "How sure the bottleneck's label is."
)
BOTTLENECK_INFO = _metric(
    "jaxobs_bottleneck_info{loop,bottleneck,runner_up}", "The bottleneck's label and its runner-up."
)
MFU = _metric(
    "jaxobs_mfu_ratio{loop}",
    (
        "Model FLOPs utilization in the last half minute: matrix FLOPs without rematerialised ones, over wall time and "
        "matrix peak."
    ),
)
HFU = _metric("jaxobs_hfu_ratio{loop}", "Hardware FLOPs utilization: as MFU, with rematerialised FLOPs.")
FLOPS = _metric(
    "jaxobs_flops_total{loop,dtype,kind}", "Modelled matrix FLOPs of watched runs on this process's devices."
)
BYTES = _metric(
    "jaxobs_bytes_total{loop}", "Modelled device-memory bytes of watched runs on this process's devices."
)
BOUND_SECONDS = _metric(
    "jaxobs_bound_seconds_total{loop,bound}",
    "Least time that watched runs could have taken, by what bounds them.",
)

# Compilations, recompilations and the persistent cache.
COMPILE_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip

COMPILATIONS = _metric("jaxobs_compilations_total{function}", "Executables made.")
COMPILE_SECONDS = _metric(
    "jaxobs_compile_seconds{phase}",
    "Durations of compile phases, each without what is nested in it.",
    COMPILE_BUCKETS,
)
COMPILE_FUNCTION_SECONDS = _metric(
    "jaxobs_compile_function_seconds_total{function,phase}", "Time spent compiling, by function and phase."
)
COMPILING = _metric(
    "jaxobs_compiling_seconds{function}", "Age of a compile in flight; absent when there is none."
)
RECOMPILATIONS = _metric(
    "jaxobs_recompilations_total{function,cause}",
    "Executables made for a function that had one already, by cause.",
)
RECOMPILATION_SECONDS = _metric(
    "jaxobs_recompilation_seconds_total{cause}", "Time that recompilations took to trace, lower and compile."
)
CACHE_ENABLED = _metric(
    "jaxobs_persistent_cache_enabled",
    "1 where the last compile could use JAX's persistent compilation cache.",
)
CACHE_SECONDS_SAVED = _metric(
    "jaxobs_persistent_cache_saved_seconds_total",
    "Compile time saved by the persistent cache, less the time to read it, as JAX reports it.",
)

# Executables: what each must do, and how near it comes to the roof.
EXECUTABLE_FLOPS = _metric("jaxobs_executable_flops{function,executable}", "FLOPs of one run on one device.")
EXECUTABLE_BYTES = _metric(
    "jaxobs_executable_bytes{function,executable}", "Device-memory bytes of one run on one device."
)
EXECUTABLE_INTENSITY = _metric(
    "jaxobs_executable_intensity_flops_per_byte{function,executable}", "Arithmetic intensity."
)
EXECUTABLE_RUNS = _metric("jaxobs_executable_runs_total{function,executable}", "Runs of watched functions.")
EXECUTABLE_SECONDS = _metric(
    "jaxobs_executable_seconds_total{function,executable}",
    "Device time: sampled run times runs, within the loops' wall time.",
)
EXECUTABLE_ACHIEVED = _metric(
    "jaxobs_executable_achieved_flops_per_second{function,executable}", "FLOPs of a run over its device time."
)
EXECUTABLE_ATTAINABLE = _metric(
    "jaxobs_executable_attainable_flops_per_second{function,executable}",
    "FLOPs of a run over its bound time.",
)
EXECUTABLE_EFFICIENCY = _metric(
    "jaxobs_executable_efficiency_ratio{function,executable}",
    "Bound time over device time; above 1 where data stayed in cache.",
)
EXECUTABLE_BOTTLENECK = _metric(
    "jaxobs_executable_bottleneck_info{function,executable,bottleneck,runner_up}",
    "What bounds the executable.",
)
EXECUTABLE_MEMORY = _metric(
    "jaxobs_executable_memory_bytes{function,executable,kind}", "XLA's memory analysis, on one device."
)

# Profiler windows and the operations in them.
PROFILE_WINDOWS = _metric(
    "jaxobs_profile_windows_total{outcome}",
    "Sessions of JAX's profiler, ours and the job's own, by what became of them.",
)
PROFILED_SECONDS = _metric(
    "jaxobs_profiled_seconds_total{loop}", "Wall time of the loop's steps inside profiler windows."
)
PROFILED_STEPS = _metric(
    "jaxobs_profiled_steps_total{loop}", "Steps inside profiler windows; of one half inside, half a step."
)
OPERATION_SECONDS = _metric(
    "jaxobs_operation_sampled_seconds_total{function,operation,category}",
    "Device time of the largest operations, summed over profiler windows and this process's devices.",
)
OPERATION_FLOPS = _metric(
    "jaxobs_operation_sampled_flops_total{function,operation,category}",
    "Modelled FLOPs of these operations in profiler windows.",
)
OPERATION_BYTES = _metric(
    "jaxobs_operation_sampled_bytes_total{function,operation,category}",
    "Modelled device-memory bytes of these operations in profiler windows.",
)
OPERATION_INFO = _metric(
    "jaxobs_operation_info{function,operation,scope,source}", "Named scope and source line of an operation."
)
UNMODELLED = _metric(
    "jaxobs_unmodelled_ratio{function}",
    "Share of a function's device time in operations whose work is not known.",
)

# Devices: utilisation, clocks, peaks and the roof.
DEVICE_UTILIZATION = _metric(
    "jaxobs_device_utilization_ratio{device}", "Share of time in which the device was busy."
)
DEVICE_CLOCK = _metric(
    "jaxobs_device_clock_ratio{device}", "Clock of the computing units over their highest."
)
DEVICE_THROTTLED = _metric(
    "jaxobs_device_throttled_info{device,reason}", "1 for each reason that holds the clocks down now."
)
DEVICE_INFO = _metric(
    "jaxobs_device_info{device,device_kind,uuid}", "This process's devices by local ordinal."
)
PEAK_FLOPS = _metric("jaxobs_device_peak_flops_per_second{device,dtype}", "Peak of the device's matrix unit.")
PEAK_BYTES = _metric("jaxobs_device_peak_bytes_per_second{device}", "Peak bandwidth of the device's memory.")
PEAK_INFO = _metric(
    "jaxobs_device_peak_info{device,dtype,provenance}",
    "Where a peak comes from; dtype is `memory` for the bandwidth.",
)
CEILING = _metric(
    "jaxobs_roofline_ceiling_flops_per_second{device_kind,dtype,intensity}",
    "The roof at log-spaced intensities.",
)

# Memory of the devices and of the process.
DEVICE_MEMORY: Final = {
    "in_use_bytes": _metric(
        "jaxobs_device_memory_in_use_bytes{device}",
        "Memory of the device that JAX's allocator has given out.",
    ),
    "peak_bytes": _metric(
        "jaxobs_device_memory_peak_bytes{device}", "The most memory of the device that was in use at a time."
    ),
    "limit_bytes": _metric("jaxobs_device_memory_limit_bytes{device}", "What JAX's allocator may give out."),
    "largest_free_block_bytes": _metric(
        "jaxobs_device_memory_largest_free_bytes{device}", "The largest free block."
    ),
    "fragmented_bytes": _metric(
        "jaxobs_device_memory_fragmented_bytes{device}", "Free memory outside the largest free block."
    ),
    "forecast_seconds": _metric(
        "jaxobs_device_memory_exhaustion_seconds{device}",
        "Time until device memory in use reaches its limit; absent unless it grows steadily.",
    ),
}
PROCESS_MEMORY: Final = {
    "peak_bytes": _metric(
        "jaxobs_process_memory_peak_bytes", "The most physical memory the training process had."
    ),
    "limit_bytes": _metric(
        "jaxobs_process_memory_limit_bytes",
        "What the training process can have: its container's limit, or the host's memory.",
    ),
    "forecast_seconds": _metric(
        "jaxobs_process_memory_exhaustion_seconds",
        "Time until the training process's memory reaches its limit; absent unless it grows steadily.",
    ),
}
"""By figure of the view."""
LIVE_ARRAYS = _metric("jaxobs_live_arrays{shape,dtype,sharding}", "Arrays alive on this process's devices.")
LIVE_ARRAYS_BYTES = _metric(
    "jaxobs_live_arrays_bytes{shape,dtype,sharding}", "Bytes of the arrays alive on this process's devices."
)
LIVE_ARRAYS_LINE_BYTES = _metric(
    "jaxobs_live_arrays_line_bytes{line}", "Bytes of live arrays by the line of the program that made them."
)

CORE_METRICS: Final[tuple[Metric, ...]] = (
    *(value for value in tuple(globals().values()) if isinstance(value, Metric)),
    *DEVICE_MEMORY.values(),
    *PROCESS_MEMORY.values(),
)
