"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Iterable

from jaxobs.derive import catalogue as core
from jaxobs.derive.series import Series
from jaxobs.model.clock import seconds
from jaxobs.model.events import CompilePhaseEnded, PhaseEnded, StepEnded

NOT_PRODUCTIVE = ("compile", "input", "checkpoint")


class RunTime:
    """Time is charged up to the last moment of which it is known what it was spent on.

    The end of a loop's last step while a loop runs, else now. So no category ever falls.
    """

    def __init__(self, series: Series, began: int) -> None:
        self._series = series
        self._charged_until = began
        self._first_step: int | None = None
        self._last_step = began
        self._loop_open = False
        self._compiling = 0.0
        self._phases = dict.fromkeys(core.CATEGORIES, 0.0)
        self._told = dict.fromkeys(core.CATEGORIES, 0.0)
        self.seconds = dict.fromkeys(core.CATEGORIES, 0.0)
        for category in core.CATEGORIES:
            series.add(core.RUN_SECONDS, (category,), 0.0)

    def step_ended(self, event: StepEnded) -> None:
        if self._first_step is None:
            self._first_step = event.start
        self._last_step = max(self._last_step, event.end)
        self._loop_open = True

    def loop_ended(self) -> None:
        self._loop_open = False

    def phase_ended(self, event: PhaseEnded) -> None:
        if event.inside is None and event.phase in ("checkpoint", "initialisation"):
            self._phases[event.phase] += seconds(event.end - event.start - event.nested)

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        if event.outermost:
            self._compiling += seconds(event.end - event.start)

    def update(self, now: int, loops: Iterable[tuple[float, dict[str, float]]]) -> None:
        """`loops` are wall seconds and components of each loop so far."""
        until = self._last_step if self._loop_open else now
        elapsed = seconds(max(0, until - self._charged_until))
        if elapsed <= 0:
            return
        known = dict(self._phases)
        inside = 0.0
        for wall, components in loops:
            known["productive"] += wall - sum(components[word] for word in NOT_PRODUCTIVE)
            known["input"] += components["input"]
            known["checkpoint"] += components["checkpoint"]
            inside += components["compile"]
        known["compile"] = max(self._compiling, inside)
        left = elapsed
        for category in ("productive", "input", "checkpoint", "compile", "initialisation"):
            new = min(left, max(0.0, known[category] - self._told[category]))
            self._told[category] += new
            self._charge(category, new)
            left -= new
        before = self._first_step is None or self._charged_until < self._first_step
        self._charge("initialisation" if before else "other", left)
        self._charged_until = until
        total = sum(self.seconds.values())
        self._series.set(core.GOODPUT, (), self.seconds["productive"] / total if total > 0 else None)

    def _charge(self, category: str, amount: float) -> None:
        self.seconds[category] += amount
        self._series.add(core.RUN_SECONDS, (category,), amount)
