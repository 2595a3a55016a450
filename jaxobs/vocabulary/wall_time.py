"""What time can be charged to: components of a loop's wall time, and categories of the whole run's."""

from __future__ import annotations

from typing import Final

COMPONENTS: Final = (
    "compute", "memory", "communication", "transfer", "input", "host", "compile", "checkpoint", "latency",
    "unmodelled", "unknown",
)  # fmt: skip
"""What wall time can be charged to: the components of a step and the bottleneck labels."""

DEVICE: Final = ("compute", "memory", "communication", "transfer", "latency")
"""Components that the device's busy time is charged to, where its work is known."""

BUSY: Final = (*DEVICE, "unmodelled")
IDLE: Final = ("input", "host", "checkpoint")
"""Components that only idle time of the device is charged to."""

REST: Final = ("host", "unknown")
"""What has the time that nothing else explains: less device time than was thought is more of it."""

CHECKPOINT: Final = "checkpoint"
"""The phase of saving the model, which is a component of a step and a category of the run as well."""

CATEGORIES: Final = ("initialisation", "compile", "productive", "input", "checkpoint", "stalled", "other")
"""What the whole run's time is charged to."""
