"""Profiler windows and the operations in them."""

from __future__ import annotations

from jaxobs.model.metrics import Metric

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
