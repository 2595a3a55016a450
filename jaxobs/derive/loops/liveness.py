"""Signs that the job goes on, and the stretches of time in which there was none."""

from __future__ import annotations

from collections import deque
from typing import Final

from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.events import (
    ExecutableRan,
    FunctionCalled,
    LiveArraysCounted,
    MemorySampled,
    Recorded,
    StepCompleted,
)

SHORTEST: Final = 30 * NANOSECONDS
"""A shorter stretch is none: it lies within the half minute that a loop's bottleneck speaks of. Sampled completions come
twice a second while watched functions are called, memory statistics once a second, counts of arrays every ten or more."""

KEPT: Final = 100
"""Stretches remembered: those of the longest step under way, in which something is seen now and then."""


class SignsOfLife:
    """What is seen to happen while a step is under way: a run that the device finished, a compile, a value recorded.

    Neither a busy device nor a busy core is a sign: who waits in a collective for a rank that hangs keeps both busy.
    """

    def __init__(self, began: int) -> None:
        self.last = began
        self._silences: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._memory: dict[int, int | None] = {}
        self._arrays: tuple[int | None, int | None] | None = None

    def seen(self, time: int) -> None:
        """Something happened; what arrives late, after something later, changes nothing."""
        if time - self.last > SHORTEST:
            self._silences.append((self.last, time))
        self.last = max(self.last, time)

    def is_near(self, time: int) -> bool:
        """Whether no silence lies before a sign at that time."""
        return time - self.last <= SHORTEST

    def happened(self, event: StepCompleted | ExecutableRan | FunctionCalled | Recorded) -> None:
        """A watched function was called, the device finished a run, or a value was recorded."""
        self.seen(event.time)

    def memory_sampled(self, event: MemorySampled) -> None:
        """Programs take and give back a device's memory as they run. That of the process moves without the job, too."""
        if event.device >= 0:
            before = self._memory.get(event.device)
            self._memory[event.device] = event.in_use
            if before is not None and event.in_use is not None and before != event.in_use:
                self.seen(event.time)

    def arrays_counted(self, event: LiveArraysCounted) -> None:
        """Whoever computes makes arrays and lets go of them."""
        before, self._arrays = self._arrays, (event.arrays, event.bytes)
        if before is not None and event.arrays is not None and before != self._arrays:
            self.seen(event.time)

    def silent(self, start: int, end: int, longest: int) -> int:
        """Nanoseconds of [start, end] in stretches of more than `longest` in which nothing was seen."""
        stretches = [*self._silences, (self.last, end)]
        lengths = [min(stop, end) - max(begin, start) for begin, stop in stretches]
        return sum(length for length in lengths if length > longest)
