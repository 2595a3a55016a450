"""All loops of the job by name: those that the user marked, and those that were found."""

from __future__ import annotations

from collections.abc import Callable

from jaxobs.derive.loops.host_lines import MOST_CARRIED, HostLine, HostLines, check_row
from jaxobs.derive.loops.inferred import InferredLoops
from jaxobs.derive.loops.liveness import SignsOfLife
from jaxobs.derive.loops.loop import Loop
from jaxobs.derive.metrics.catalogue import loop_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.derive.refusal import require
from jaxobs.model.clock import ClockAnchor, seconds
from jaxobs.model.events import MainThreadSampled, Recorded

MOST_LOOPS = 20
"""At most so many loops by name; the steps of more are refused and counted: a loop's name is no step's number."""


class Loops:
    """Makes a loop when it is first named. The three functions are what `InferredLoops` needs."""

    def __init__(
        self,
        series: Series,
        clock: ClockAnchor,
        signs: SignsOfLife,
        function_of: Callable[[int], str],
        compiling: Callable[[int, int, int], int],
        seconds_of: Callable[[int], float | None],
    ) -> None:
        self._series = series
        self._clock = clock
        self._signs = signs
        self.by_name: dict[str, Loop] = {}
        self.inferred = InferredLoops(function_of, compiling, seconds_of)
        self.outside = HostLines("", series)
        """Where the main thread was outside loops."""
        self._unplaced: dict[str, Recorded] = {}

    def named(self, name: str) -> Loop:
        """The loop of that name. Raises ValueError where there are too many already."""
        loop = self.by_name.get(name)
        if loop is None:
            if len(self.by_name) >= MOST_LOOPS:
                raise ValueError(f"more than {MOST_LOOPS} loops")
            loop = self.by_name[name] = Loop(name, self._series, self._clock, self._signs)
        return loop

    def recorded(self, event: Recorded) -> None:
        """A value of the user's; one that names no loop belongs to the loop that is found, or else to `train`."""
        name = event.loop or self.inferred.current
        if name is None and self.inferred.is_searching and not self.by_name:
            self._unplaced[event.name] = event  # its loop may be found yet
            return
        for waiting in [*self._unplaced.values(), event]:
            self.named(name or "train").record(waiting)
        self._unplaced.clear()

    def place_recorded(self) -> None:
        """No loop will be found any more for the values that wait for one."""
        for event in list(self._unplaced.values()):
            self.recorded(event)

    def main_thread_sampled(self, event: MainThreadSampled) -> None:
        sampled = sum(check_row(activity, spent, count) for *_, activity, spent, count in event.rows)
        require(
            0.0 <= sampled <= seconds(event.end - event.start) + MOST_CARRIED,
            "more samples than there was time",
        )
        for name, line, waits_in, activity, spent, samples in event.rows:
            place = HostLine(line, waits_in, activity)
            if (loop := self.by_name.get(name or self.inferred.current or "")) is not None:
                loop.main_thread_seen(place, spent, samples)
            else:
                self.outside.add(place, spent, samples)

    def update(self) -> None:
        """Bring the series up to what was folded; each loop has been brought up to date by itself."""
        self.outside.update()
        verdicts = {name: loop.verdict() for name, loop in self.by_name.items()}
        self._series.replace(
            loop_metrics.BOTTLENECK_INFO,
            (((name, verdict.label, verdict.runner_up or ""), 1.0) for name, verdict in verdicts.items()),
        )
