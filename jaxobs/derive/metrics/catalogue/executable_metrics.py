"""Executables: what each must do, and how near it comes to the roof."""

from __future__ import annotations

from jaxobs.model.metrics import Metric

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
