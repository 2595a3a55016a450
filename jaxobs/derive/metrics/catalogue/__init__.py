"""The metrics that the core derives. Panels, alerts and recordings outside rely on their names, types and labels.

A new metric is one entry in the file of its room.
"""

from __future__ import annotations

from typing import Final

from jaxobs.derive.metrics.catalogue import (
    compilation_metrics,
    device_metrics,
    executable_metrics,
    loop_metrics,
    memory_metrics,
    process_metrics,
    profile_metrics,
)
from jaxobs.model.metrics import Metric

CORE_METRICS: Final[tuple[Metric, ...]] = tuple(
    value
    for room in (
        process_metrics,
        loop_metrics,
        compilation_metrics,
        executable_metrics,
        profile_metrics,
        device_metrics,
        memory_metrics,
    )
    for value in vars(room).values()
    if isinstance(value, Metric)
)
