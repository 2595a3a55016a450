"""Lets the agent's main thread work in short slices and sleep in between, so that the job seldom waits for a core.

Where the two share cores the kernel decides who runs, and it decides seldom: Linux lets a thread that was put on a core
keep it up to the next tick of its clock, 4 ms at 250 Hz, at any niceness and under SCHED_IDLE too (measured with the
kernel's tracer: steps of a 1 ms loop that had to wait waited 4.0 ms). A thread that sleeps gives the core back at once,
on any system.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Final

from jaxobs.model.clock import perf_counter, sleep

SLICE_SECONDS: Final = 0.0005
"""Seconds of work in a slice. It may be exceeded by one event, one exporter or one snapshot, which takes 2 ms. With
slices of 0.2 ms the work of a second took a twelfth longer (measured beside a job that uses every core): each pause
empties caches."""

PAUSE_SECONDS: Final = 0.001
"""Seconds of sleep after each slice, so that a thread takes a third of a core while its pieces of work are short. After
longer pauses caches are emptier: with 2.5 ms nothing was gained by longer slices."""


class Slices:
    """A pacer to call often while working: it sleeps when the slice is used up, unless somebody waits for the result.

    Each working thread has one. The pauses end `patience` seconds after `has_waited`, so that a thread with more work
    than a third of a core can do still keeps up.
    """

    def __init__(self, *, patience: float = math.inf) -> None:
        self._patience = patience
        self._used_up_at = self._patient_until = 0.0
        self._somebody_waits = False

    def __call__(self) -> None:
        """Sleep if the slice is used up; otherwise this takes 0.1 µs (measured)."""
        if perf_counter() >= self._used_up_at:
            self._give_way()

    def has_waited(self) -> None:
        """Begin a slice, because the thread has waited for work."""
        started = perf_counter()
        self._used_up_at = started + SLICE_SECONDS
        self._patient_until = started + self._patience

    @contextlib.contextmanager
    def without_pauses(self) -> Iterator[None]:
        """Work without pauses in this context, because somebody waits."""
        before, self._somebody_waits = self._somebody_waits, True
        try:
            yield
        finally:
            self._somebody_waits = before

    def _give_way(self) -> None:
        if not self._somebody_waits and perf_counter() < self._patient_until:
            sleep(PAUSE_SECONDS)
        self._used_up_at = perf_counter() + SLICE_SECONDS
