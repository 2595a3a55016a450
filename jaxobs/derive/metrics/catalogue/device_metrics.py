"""Devices: utilisation, clocks, peaks and the roof."""

from __future__ import annotations

from jaxobs.model.metrics import Metric

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
