"""The metrics that the core derives. Panels, alerts and recordings outside rely on their names, types and labels.

`writer.py` sets each from a view.
"""

from __future__ import annotations

from typing import Final

from jaxobs.model.metrics import Metric, metric

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

COMPILE_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip

BUCKETS: Final = {
    "jaxobs_step_seconds{loop}": STEP_BUCKETS,
    "jaxobs_step_host_seconds{loop}": HOST_STEP_BUCKETS,
    "jaxobs_compile_seconds{phase}": COMPILE_BUCKETS,
}

TOLD: Final = {
    # The process and its observer: versions, the run, advice, events, plugins and what observing costs.
    "jaxobs_build_info{version,jax,jaxlib,platform,agent,address}":
        "Versions and platform; the agent is always a process.",
    "jaxobs_run_info{run,run_id,attempt,rank,host,user,job_id,namespace,cluster,experiment}":
        "Which run this process belongs to; `run_id` tells runs of one name apart. An unknown label is empty.",
    "jaxobs_job_last_heard_timestamp_seconds": "When the agent last heard of the training process, in Unix time.",
    "jaxobs_run_seconds_total{category}": "Where the process's time went; the categories add up to its age.",
    "jaxobs_phase_seconds_total{phase}":
        "Time in phases that ended, of all threads together, without loops and other phases in them.",
    "jaxobs_hang_seconds{loop}": "For how long the loop has stood still; else 0.",
    "jaxobs_hang_info{loop,activity,line}": "What the thread of a loop that stands still does, and where.",
    "jaxobs_hangs_total{loop}": "How often the loop stood still.",
    "jaxobs_slowdown_ratio{loop}":
        "How many times as long a step takes since the loop became slower for good; 1 where it did not; absent "
        "while its pace is learned.",
    "jaxobs_slowdown_timestamp_seconds{loop}":
        "Since when the loop has been slower, in Unix time; absent where it is not.",
    "jaxobs_slowdown_info{loop,activity,line}":
        "What the thread of a loop that became slower spends the time on, and where.",
    "jaxobs_slowdowns_total{loop}": "How often the loop became slower for good.",
    "jaxobs_goodput_ratio": "Productive share of the process's age.",
    "jaxobs_advice_info{condition,loop,function}": "Advice given now; docs/reference/advice.md explains it.",
    "jaxobs_advice_saves_ratio{condition,loop,function}": "Share of wall time that the advice would give back.",
    "jaxobs_advice_saves_bytes{condition,loop,function}": "Device memory that the advice would give back.",
    "jaxobs_source_up{source}": "1 where the plugin works, 0 where it failed; absent where it has nothing to read.",
    "jaxobs_source_last_success_timestamp_seconds{source}": "When the plugin last worked, in Unix time.",
    "jaxobs_source_seconds_total{source}": "Time spent in the plugin.",
    "jaxobs_listener_restored_total": "Times that JAX's listeners had been cleared and were put back.",
    "jaxobs_events_total{outcome}": "Events of the job and the agent, by what became of them.",
    "jaxobs_events_emitted_total": "Events that the job and the agent have emitted, of which some are on their way.",
    "jaxobs_agent_cpu_seconds_total{where}": "CPU time of jaxobs: its threads in the job, and the agent.",
    "jaxobs_agent_resident_bytes": "Resident memory of the agent.",
    "jaxobs_exporter_failures_total{exporter}": "Failed turns of an exporter.",
    "jaxobs_exporter_dropped_total{exporter}": "Events and spans that an exporter is known to have lost.",
    "jaxobs_series_limited_total{metric}": "Updates that found no series of their own, by metric.",
    # Loops: steps, where their wall time went, and how well the device was used.
    "jaxobs_steps_total{loop}": "Steps that ended.",
    "jaxobs_steps_failed_total{loop}": "Steps that raised.",
    "jaxobs_step_seconds{loop}":
        "What a step takes: each turn of a host that waits for the device, else the mean between two completions "
        "that were seen; the host's turns where nothing is watched. A quantile between 10 µs and 10 s is right to "
        "10 %, the median to 5 %.",
    "jaxobs_step_host_seconds{loop}": "The host's turn of the loop: its mean is exact, its quantiles are rough.",
    "jaxobs_last_step_timestamp_seconds{loop}": "When the last step ended, in Unix time.",
    "jaxobs_step_component_seconds_total{loop,component}":
        "Where the loop's wall time went; the components of a loop add up to it.",
    "jaxobs_host_line_sampled_seconds_total{loop,line,waits_in,activity}":
        "Where the main thread was, by samples of its Python stack; `loop` is empty outside steps.",
    "jaxobs_examples_total{loop}": "Examples of ended steps, this process's share.",
    "jaxobs_tokens_total{loop}": "Tokens of ended steps, this process's share.",
    "jaxobs_recorded{loop,name}": "The user's own values, by obs.record().",
    "jaxobs_recorded_not_finite_total{loop,name}":
        "Values by obs.record() that were NaN or infinite; one a second is read.",
    "jaxobs_recorded_leaps_total{loop,name}":
        "How often a value by obs.record() rose far above the hundred read before it, one a second.",
    "jaxobs_bottleneck_ratio{loop,bottleneck}": "Share of the last half minute's wall time; adds up to 1.",
    "jaxobs_bottleneck_confidence_ratio{loop}": "How sure the bottleneck's label is.",
    "jaxobs_bottleneck_info{loop,bottleneck,runner_up}": "The bottleneck's label and its runner-up.",
    "jaxobs_mfu_ratio{loop}":
        "Model FLOPs utilization in the last half minute: matrix FLOPs without rematerialised ones, over wall time "
        "and matrix peak.",
    "jaxobs_hfu_ratio{loop}": "Hardware FLOPs utilization: as MFU, with rematerialised FLOPs.",
    "jaxobs_flops_total{loop,dtype,kind}": "Modelled matrix FLOPs of watched runs on this process's devices.",
    "jaxobs_bytes_total{loop}": "Modelled device-memory bytes of watched runs on this process's devices.",
    "jaxobs_bound_seconds_total{loop,bound}": "Least time that watched runs could have taken, by what bounds them.",
    # Compilations, recompilations and the persistent cache.
    "jaxobs_compilations_total{function}": "Executables made.",
    "jaxobs_compile_seconds{phase}": "Durations of compile phases, each without what is nested in it.",
    "jaxobs_compile_function_seconds_total{function,phase}": "Time spent compiling, by function and phase.",
    "jaxobs_compiling_seconds{function}": "Age of a compile in flight; absent when there is none.",
    "jaxobs_recompilations_total{function,cause}": "Executables made for a function that had one already, by cause.",
    "jaxobs_recompilation_seconds_total{cause}": "Time that recompilations took to trace, lower and compile.",
    "jaxobs_persistent_cache_enabled": "1 where the last compile could use JAX's persistent compilation cache.",
    "jaxobs_persistent_cache_saved_seconds_total":
        "Compile time saved by the persistent cache, less the time to read it, as JAX reports it.",
    # Executables: what each must do, and how near it comes to the roof.
    "jaxobs_executable_flops{function,executable}": "FLOPs of one run on one device.",
    "jaxobs_executable_bytes{function,executable}": "Device-memory bytes of one run on one device.",
    "jaxobs_executable_intensity_flops_per_byte{function,executable}": "Arithmetic intensity.",
    "jaxobs_executable_runs_total{function,executable}": "Runs of watched functions.",
    "jaxobs_executable_seconds_total{function,executable}":
        "Device time: sampled run times runs, within the loops' wall time.",
    "jaxobs_executable_achieved_flops_per_second{function,executable}": "FLOPs of a run over its device time.",
    "jaxobs_executable_attainable_flops_per_second{function,executable}": "FLOPs of a run over its bound time.",
    "jaxobs_executable_efficiency_ratio{function,executable}":
        "Bound time over device time; above 1 where data stayed in cache.",
    "jaxobs_executable_bottleneck_info{function,executable,bottleneck,runner_up}": "What bounds the executable.",
    "jaxobs_executable_memory_bytes{function,executable,kind}": "XLA's memory analysis, on one device.",
    "jaxobs_executable_peak_buffer_bytes{function,kind,operation,shape,dtype}":
        "The largest buffers at the peak of the executable that needs the most memory, on one device: of its hundred "
        "largest, alike ones as one sum.",
    # Profiler windows and the operations in them.
    "jaxobs_profile_windows_total{outcome}":
        "Sessions of JAX's profiler, ours and the job's own, by what became of them.",
    "jaxobs_profiled_seconds_total{loop}": "Wall time of the loop's steps inside profiler windows.",
    "jaxobs_profiled_steps_total{loop}": "Steps inside profiler windows; of one half inside, half a step.",
    "jaxobs_operation_sampled_seconds_total{function,operation,category}":
        "Device time of the largest operations, summed over profiler windows and this process's devices.",
    "jaxobs_operation_sampled_flops_total{function,operation,category}":
        "Modelled FLOPs of these operations in profiler windows.",
    "jaxobs_operation_sampled_bytes_total{function,operation,category}":
        "Modelled device-memory bytes of these operations in profiler windows.",
    "jaxobs_operation_info{function,operation,scope,source}": "Named scope and source line of an operation.",
    "jaxobs_unmodelled_ratio{function}": "Share of a function's device time in operations whose work is not known.",
    # Devices: utilisation, clocks, peaks and the roof.
    "jaxobs_device_utilization_ratio{device}": "Share of time in which the device was busy.",
    "jaxobs_device_clock_ratio{device}": "Clock of the computing units over their highest.",
    "jaxobs_device_throttled_info{device,reason}": "1 for each reason that holds the clocks down now.",
    "jaxobs_device_info{device,device_kind,uuid}": "This process's devices by local ordinal.",
    "jaxobs_device_peak_flops_per_second{device,dtype}": "Peak of the device's matrix unit.",
    "jaxobs_device_peak_bytes_per_second{device}": "Peak bandwidth of the device's memory.",
    "jaxobs_device_peak_info{device,dtype,provenance}": "Where a peak comes from; dtype is `memory` for the bandwidth.",
    "jaxobs_roofline_ceiling_flops_per_second{device_kind,dtype,intensity}": "The roof at log-spaced intensities.",
    # Memory of the devices and of the process.
    "jaxobs_live_arrays{shape,dtype,sharding}": "Arrays alive on this process's devices.",
    "jaxobs_live_arrays_bytes{shape,dtype,sharding}": "Bytes of the arrays alive on this process's devices.",
    "jaxobs_live_arrays_line_bytes{line}": "Bytes of live arrays by the line of the program that made them.",
    "jaxobs_device_memory_in_use_bytes{device}": "Memory of the device that JAX's allocator has given out.",
    "jaxobs_device_memory_peak_bytes{device}": "The most memory of the device that was in use at a time.",
    "jaxobs_device_memory_limit_bytes{device}": "What JAX's allocator may give out.",
    "jaxobs_device_memory_largest_free_bytes{device}": "The largest free block.",
    "jaxobs_device_memory_fragmented_bytes{device}": "Free memory outside the largest free block.",
    "jaxobs_device_memory_exhaustion_seconds{device}":
        "Time until device memory in use reaches its limit; absent unless it grows steadily.",
    "jaxobs_process_memory_peak_bytes": "The most physical memory the training process had.",
    "jaxobs_process_memory_limit_bytes":
        "What the training process can have: its container's limit, or the host's memory.",
    "jaxobs_process_memory_exhaustion_seconds":
        "Time until the training process's memory reaches its limit; absent unless it grows steadily.",
}  # fmt: skip
"""What each metric tells, by its name and labels."""

CORE_METRICS: Final[tuple[Metric, ...]] = tuple(
    metric(signature, told, BUCKETS.get(signature, ())) for signature, told in TOLD.items()
)
