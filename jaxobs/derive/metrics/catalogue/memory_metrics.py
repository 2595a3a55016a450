"""Memory of the devices and of the process."""

from __future__ import annotations

from jaxobs.model.metrics import Metric

DEVICE_MEMORY_IN_USE = Metric(
    "jaxobs_device_memory_in_use_bytes", "gauge", "Memory of the device that JAX's allocator has given out.",
    ("device",), "bytes",
)  # fmt: skip
DEVICE_MEMORY_PEAK = Metric(
    "jaxobs_device_memory_peak_bytes",
    "gauge",
    "The most memory of the device that was in use at a time.",
    ("device",),
    "bytes",
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
    "jaxobs_device_memory_exhaustion_seconds", "gauge", "Time until the device memory in use reaches its limit if it "
    "goes on growing so; absent unless it grows steadily.", ("device",), "seconds",
)  # fmt: skip
PROCESS_MEMORY_PEAK = Metric(
    "jaxobs_process_memory_peak_bytes",
    "gauge",
    "The most physical memory the training process had.",
    (),
    "bytes",
)
PROCESS_MEMORY_LIMIT = Metric(
    "jaxobs_process_memory_limit_bytes", "gauge",
    "Physical memory that the training process can have: its container's limit, or the host's memory.", (), "bytes",
)  # fmt: skip
PROCESS_MEMORY_EXHAUSTION = Metric(
    "jaxobs_process_memory_exhaustion_seconds", "gauge", "Time until the training process's memory reaches its limit if "
    "it goes on growing so; absent unless it grows steadily.", (), "seconds",
)  # fmt: skip
LIVE_ARRAYS = Metric(
    "jaxobs_live_arrays", "gauge", "Arrays alive on this process's devices; the largest groups, and the rest.",
    ("shape", "dtype", "sharding"), "arrays",
)  # fmt: skip
LIVE_ARRAYS_BYTES = Metric(
    "jaxobs_live_arrays_bytes", "gauge",
    "Bytes of the arrays alive on this process's devices; the largest groups, and the rest.",
    ("shape", "dtype", "sharding"), "bytes",
)  # fmt: skip
LIVE_ARRAYS_LINE_BYTES = Metric(
    "jaxobs_live_arrays_line_bytes", "gauge", "Bytes of live arrays by the line of the program that made them.",
    ("line",), "bytes",
)  # fmt: skip
