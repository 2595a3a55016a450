"""Declares which of a collector's metrics are readings of a device, so that the core needs no names of its metrics.

A collector's `device_readings` is a tuple of these. From the series of the metrics named there the core derives what it
shows beside its own model of the device: utilisation, clocks, and why they are held down.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from jaxobs.model.metrics import Metric

Quantity = Literal[
    "utilization", "clock", "clock_limit", "memory_clock", "memory_clock_limit", "throttled", "slowdown"
]
"""Ratios are from 0 to 1, clocks in hertz. `clock` is that of the units that compute, `clock_limit` the device's
highest. `throttled` is 1 while the reason in its label `reason` holds the clocks down; `slowdown` is the share of the
device's speed that is taken away, where only that is reported."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """A quantity of a device and its metric, a gauge with the label `device`, which is JAX's local ordinal as text.

    Only series whose labels have the values in `where` count; for `throttled`, only those with one of `reasons`,
    because an idle device is not held down. Raises ValueError where the metric has no such labels.
    """

    quantity: Quantity
    metric: Metric
    where: tuple[tuple[str, str], ...] = ()
    reasons: Collection[str] = ()

    def __post_init__(self) -> None:
        needed = {"device", *dict(self.where)} | ({"reason"} if self.quantity == "throttled" else set())
        if missing := sorted(needed - set(self.metric.labels)):
            raise ValueError(
                f"{self.metric.name} tells no {self.quantity}: it lacks labels {', '.join(missing)}"
            )
