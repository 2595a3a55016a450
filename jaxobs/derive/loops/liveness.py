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
"""Shortest silence: a shorter one lies within the half minute that a loop's bottleneck covers. Sampled completions come
twice a second while watched functions are called, memory statistics each second, counts of arrays every ten or more."""

KEPT: Final = 100
"""Newest silences remembered: those of a long step under way, in which something is seen now and then."""


class SignsOfLife:
    """The newest sign that the job goes on (a finished run, a compile, a recorded value), and the silences before it.

    Neither a busy device nor a busy core is a sign: to wait in a collective for a hung rank keeps both busy.
    """

    def __init__(self, began: int) -> None:
        self.last = began
        self._silences: deque[tuple[int, int]] = deque(maxlen=KEPT)
        self._memory: dict[int, int | None] = {}
        self._arrays: tuple[int | None, int | None] | None = None

    def seen(self, time: int) -> None:
        """Note a sign at `time`; one that is older than the newest changes nothing."""
        if time - self.last > SHORTEST:
            self._silences.append((self.last, time))
        self.last = max(self.last, time)

    def is_near(self, time: int) -> bool:
        """Whether no silence lies between the newest sign and `time`."""
        return time - self.last <= SHORTEST

    def happened(self, event: StepCompleted | ExecutableRan | FunctionCalled | Recorded) -> None:
        """Note a sign: a watched function was called, the device finished a run, or a value was recorded."""
        self.seen(event.time)

    def memory_sampled(self, event: MemorySampled) -> None:
        """Note a sign where a device's memory in use changed. The process's own memory changes without the job, too."""
        if event.device >= 0:
            before = self._memory.get(event.device)
            self._memory[event.device] = event.in_use
            if before is not None and event.in_use is not None and before != event.in_use:
                self.seen(event.time)

    def arrays_counted(self, event: LiveArraysCounted) -> None:
        """Note a sign where the live arrays changed: a program that computes creates and frees arrays."""
        before, self._arrays = self._arrays, (event.arrays, event.bytes)
        if before is not None and event.arrays is not None and before != self._arrays:
            self.seen(event.time)

    def silent(self, start: int, end: int, longest: int) -> int:
        """Nanoseconds of [start, end] in silences of more than `longest` nanoseconds."""
        stretches = [*self._silences, (self.last, end)]
        lengths = [min(stop, end) - max(begin, start) for begin, stop in stretches]
        return sum(length for length in lengths if length > longest)
