"""Utilisation and clocks that the hardware reports, and the efficiency that is lost to low clocks.

A peak is reached at about the device's highest clock. Compute-bound work at a lower clock falls short of the peak by
the same factor; for memory-bound work the memory's clock counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from jaxobs.derive.loops.stretches import WINDOW
from jaxobs.model.metrics import DeviceReading

LOW_CLOCK: Final = 0.9
"""Share of the highest clock below which a shortfall is blamed on the clock. A little below the highest is normal: the
datasheet's bfloat16 peak of an H100 SXM is reached at 1 830 MHz, 0.92 of the 1 980 MHz that NVML gives as highest."""

BUSY: Final = 0.5
"""Share of the time that a device must be busy for low clocks to matter: one that is less busy saves power."""

LEAST_WATCHED: Final = WINDOW // 2
"""Nanoseconds that readings must span. Clocks change from one reading to the next, so the loss is an average over the
window, or at least half of it."""

GaugesOf = Callable[[str], Mapping[tuple[str, ...], float]]
"""Gives the series of a gauge by its name: a value for each combination of label values."""


class Taken(NamedTuple):
    """Shares of the compute speed and of the memory speed that are lost to throttled clocks; None: not known."""

    compute: float | None = None
    memory: float | None = None


class RecentlyTaken:
    """What throttled clocks took from one device, averaged over the last WINDOW."""

    def __init__(self) -> None:
        self._readings: deque[tuple[int, Taken]] = deque()

    def add(self, time: int, taken: Taken) -> None:
        self._readings.append((time, taken))
        while self._readings[0][0] < time - WINDOW:
            self._readings.popleft()

    def average(self) -> Taken:
        """The mean of the readings; None for both where they span less than LEAST_WATCHED."""
        if not self._readings or self._readings[-1][0] - self._readings[0][0] < LEAST_WATCHED:
            return Taken()
        return Taken(
            _mean(taken.compute for _, taken in self._readings),
            _mean(taken.memory for _, taken in self._readings),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What collectors report of one device now; None: not known."""

    utilization: float | None = None
    clock: float | None = None
    clock_limit: float | None = None
    memory_clock: float | None = None
    memory_clock_limit: float | None = None
    slowdown: float | None = None
    reasons: tuple[str, ...] | None = None

    @property
    def clock_ratio(self) -> float | None:
        """The clock of the computing units over their highest clock."""
        return _ratio(self.clock, self.clock_limit)

    @property
    def memory_clock_ratio(self) -> float | None:
        """The clock of the device memory over its highest clock."""
        return _ratio(self.memory_clock, self.memory_clock_limit)

    @property
    def is_held_down(self) -> bool:
        """Whether the device is busy and its clocks are throttled."""
        busy = self.utilization is None or self.utilization >= BUSY
        return busy and bool(self.reasons or self.slowdown)

    @property
    def taken(self) -> Taken:
        """What throttled clocks take now from the speed that the device has at LOW_CLOCK of its highest clock."""
        speed = None if self.slowdown is None else 1 - self.slowdown
        compute = speed if self.clock_ratio is None else self.clock_ratio
        memory = speed if self.memory_clock_ratio is None else self.memory_clock_ratio
        return Taken(*(None if ratio is None else self._short_by(ratio) for ratio in (compute, memory)))

    def _short_by(self, ratio: float) -> float:
        return max(0.0, 1 - ratio / LOW_CLOCK) if self.is_held_down else 0.0


def read_device(readings: Iterable[DeviceReading], gauges: GaugesOf, device: str) -> Reading | None:
    """The reading of a device from the collectors' series; None where they have nothing on it."""
    values: dict[str, float] = {}
    reasons: list[str] | None = None
    for reading in readings:
        for labels, value in gauges(reading.metric.name).items():
            named = dict(zip(reading.metric.labels, labels, strict=True))
            if named["device"] != device or any(named[label] != wanted for label, wanted in reading.where):
                continue
            if reading.quantity != "throttled":
                values[reading.quantity] = value
            elif named["reason"] in reading.reasons:
                reasons = (reasons or []) + ([named["reason"]] if value > 0 else [])
    if not values and reasons is None:
        return None
    return Reading(**values, reasons=None if reasons is None else tuple(sorted(reasons)))


def remark_on(reading: Reading, function: str, efficiency: float | None, limit: str | None) -> str | None:
    """A sentence on low clocks and the efficiency they explain; None where the clocks of a busy device are not low.

    `limit` is what the function is bound by, `compute` or `memory`, which decides which of the two clocks counts.
    """
    ratio = reading.memory_clock_ratio if limit == "memory" else reading.clock_ratio
    if reading.utilization is not None and reading.utilization < BUSY:
        return None
    held = f"held down by {', '.join(reading.reasons)}" if reading.reasons else None
    if ratio is not None and ratio < LOW_CLOCK and held is not None:
        clock = f"the {'memory ' if limit == 'memory' else ''}clock at {ratio:.2f} of its maximum"
    elif ratio is None and (reading.slowdown or 0.0) >= 1 - LOW_CLOCK:
        clock, held = f"the device slowed down by {reading.slowdown:.0%}", held or "throttled"
    else:
        return None
    if efficiency is None or efficiency >= 1:
        return f"{clock}: {held}"
    return f"efficiency of {function} {efficiency:.2f} with {clock}: {held}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _ratio(value: float | None, limit: float | None) -> float | None:
    return None if value is None or limit is None or limit <= 0 else value / limit
