"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Iterable

from jaxobs.derive import catalogue as core
from jaxobs.derive.intervals import Intervals
from jaxobs.derive.refusal import require
from jaxobs.derive.series import Series
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import CompilePhaseEnded, LoopEnded, PhaseEnded, StepEnded

NOT_PRODUCTIVE = ("compile", "input", "checkpoint")

PAUSE = 60 * NANOSECONDS
"""A loop that has ended no step for this long holds the charging back no longer. It is the longest pause between two
steps that still counts as the loop's own time (`LONGEST_GAP` of the probe's loops)."""


class RunTime:
    """Time is charged up to the last moment of which it is known what it was spent on.

    That is the end of the last step of each loop that runs, else now. What no event explains is `initialisation` before
    the first step, and `other` after it. So no category ever falls, and together they are the age at that moment.
    """

    def __init__(self, series: Series, began: int) -> None:
        self._series = series
        self._charged_until = began
        self._first_step: int | None = None
        self._running: dict[str, int] = {}
        self._compiling = Intervals()
        self._phases = {"checkpoint": Intervals(), "initialisation": Intervals()}
        self._told: dict[str, float] = {}
        self.seconds = dict.fromkeys(core.CATEGORIES, 0.0)
        for category in core.CATEGORIES:
            series.add(core.RUN_SECONDS, (category,), 0.0)

    def step_ended(self, event: StepEnded) -> None:
        if self._first_step is None:
            self._first_step = event.start
        self._running[event.loop] = max(event.end, self._running.get(event.loop, event.end))

    def loop_ended(self, event: LoopEnded) -> None:
        self._running.pop(event.loop, None)

    def phase_ended(self, event: PhaseEnded) -> None:
        require(event.end >= event.start and event.nested >= 0, "a phase of negative duration")
        if event.inside is None and event.phase in self._phases:
            # Where in the phase its loops lay is not told; they are charged first, and it gets what is left.
            self._phases[event.phase].add(event.start, event.end)

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        if event.outermost:
            self._compiling.add(event.start, event.end)

    def update(self, now: int, loops: Iterable[tuple[float, dict[str, float]]]) -> None:
        """`loops` are wall seconds and components of each loop so far."""
        until = min([now, *(end for end in self._running.values() if now - end <= PAUSE)])
        left = seconds(max(0, until - self._charged_until))
        if left <= 0:
            return
        known = dict.fromkeys(("productive", "input", "checkpoint"), 0.0)
        for wall, components in loops:
            known["productive"] += wall - sum(components[word] for word in NOT_PRODUCTIVE)
            known["input"] += components["input"]
            known["checkpoint"] += components["checkpoint"]
        # What does not fit was charged as something else before, or ran beside it on another thread.
        new = {word: max(0.0, amount - self._told.get(word, 0.0)) for word, amount in known.items()}
        self._told = known
        new["checkpoint"] += seconds(self._phases["checkpoint"].take(until))
        new["compile"] = seconds(self._compiling.take(until))
        new["initialisation"] = seconds(self._phases["initialisation"].take(until))
        for category in ("productive", "input", "checkpoint", "compile", "initialisation"):
            amount = min(left, new[category])
            self._charge(category, amount)
            left -= amount
        before = self._first_step is None or self._charged_until < self._first_step
        self._charge("initialisation" if before else "other", left)
        self._charged_until = until
        total = sum(self.seconds.values())
        self._series.set(core.GOODPUT, (), self.seconds["productive"] / total if total > 0 else None)

    def _charge(self, category: str, amount: float) -> None:
        self.seconds[category] += amount
        self._series.add(core.RUN_SECONDS, (category,), amount)
