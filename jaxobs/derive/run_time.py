"""Where the whole process's time went since it was started; the productive share is the goodput."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jaxobs.derive import catalogue as core
from jaxobs.derive.intervals import Intervals
from jaxobs.derive.refusal import require
from jaxobs.derive.series import Series
from jaxobs.model.clock import NANOSECONDS, seconds
from jaxobs.model.events import CompilePhaseEnded, LoopEnded, PhaseEnded, PhaseStarted, StepEnded

NOT_PRODUCTIVE = ("compile", "input", "checkpoint")

PAUSE = 60 * NANOSECONDS
"""A loop that has ended no step for this long holds the charging back no longer. It is the longest pause between two
steps that still counts as the loop's own time (`LONGEST_GAP` of the probe's loops)."""


LONGEST_COMPILE = 3600 * NANOSECONDS
"""A compile or phase under way holds the charging back no longer: its end may have been dropped."""


class RunTime:
    """Time is charged up to the last moment of which it is known what it was spent on.

    That is the end of the last step of each loop that runs, the beginning of a compile or phase under way, else now.
    What no event explains is `initialisation` before the first step, and `other` after it. So no category ever falls,
    and together they are the age at that moment. Where the beginning of a phase was lost, what was charged to `other`
    meanwhile is made good with time that is unexplained later.
    """

    def __init__(self, series: Series, began: int) -> None:
        self._series = series
        self._charged_until = began
        self._first_step: int | None = None
        self._running: dict[str, int] = {}
        self._compiling = Intervals()
        self._open_phases: set[int] = set()
        self._unexplained = 0.0
        self._late = {"checkpoint": 0.0, "initialisation": 0.0}
        self._phases = {"checkpoint": Intervals(), "initialisation": Intervals()}
        self._told = dict.fromkeys(("productive", "input", "checkpoint"), 0.0)
        self.seconds = dict.fromkeys(core.CATEGORIES, 0.0)
        for category in core.CATEGORIES:
            series.add(core.RUN_SECONDS, (category,), 0.0)

    def step_ended(self, event: StepEnded) -> None:
        if self._first_step is None:
            self._first_step = event.start
        self._running[event.loop] = max(event.end, self._running.get(event.loop, event.end))

    def loop_ended(self, event: LoopEnded) -> None:
        self._running.pop(event.loop, None)

    def phase_started(self, event: PhaseStarted) -> None:
        if event.inside is None:
            self._open_phases.add(event.time)

    def phase_ended(self, event: PhaseEnded) -> None:
        require(event.end >= event.start and event.nested >= 0, "a phase of negative duration")
        self._open_phases.discard(event.start)
        if event.inside is None and event.phase in self._phases:
            # Where in the phase its loops lay is not told; they are charged first, and it gets what is left.
            self._phases[event.phase].add(event.start, event.end)

    def compile_ended(self, event: CompilePhaseEnded) -> None:
        if event.outermost:
            self._compiling.add(event.start, event.end)

    def update(
        self, now: int, loops: Iterable[tuple[float, dict[str, float]]], compiling_since: int | None
    ) -> None:
        """`loops` are wall seconds and components of each loop so far."""
        until = min([now, *(end for end in self._running.values() if now - end <= PAUSE)])
        if compiling_since is not None and now - compiling_since <= LONGEST_COMPILE:
            until = min(until, compiling_since)
        until = min([until, *(start for start in self._open_phases if now - start <= LONGEST_COMPILE)])
        self._note_late_phases()
        known = dict.fromkeys(("productive", "input", "checkpoint"), 0.0)
        for wall, components in loops:
            known["productive"] += wall - sum(components[word] for word in NOT_PRODUCTIVE)
            known["input"] += components["input"]
            known["checkpoint"] += components["checkpoint"]
        new = {word: max(0.0, amount - self._told[word]) for word, amount in known.items()}
        if self._first_step is None or self._charged_until < self._first_step:
            before = until if self._first_step is None else min(until, self._first_step)
            self._charge_up_to(before, {}, "initialisation")
        if self._first_step is not None:
            new = self._charge_up_to(until, new, "other")
        # What is left over lies after `until`, or ran beside what was charged, on another thread: that is dropped.
        left_over, ahead = sum(new.values()), seconds(now - until)
        kept = min(1.0, ahead / left_over) if left_over > 0 else 0.0
        self._told = {word: amount - new[word] * kept for word, amount in known.items()}
        total = sum(self.seconds.values())
        # Without any step it is not known what was productive.
        known_steps = self._first_step is not None and total > 0
        self._series.set(core.GOODPUT, (), self.seconds["productive"] / total if known_steps else None)

    def _charge_up_to(self, until: int, inside: Mapping[str, float], rest: str) -> dict[str, float]:
        """Charge the time up to `until`: what loops told first, then compiles and phases outside them, then the rest.

        Returns what of `inside` found no time.
        """
        left = seconds(max(0, until - self._charged_until))
        if left <= 0:
            return dict(inside)
        self._charged_until = until
        over = {}
        for word, amount in inside.items():
            over[word] = amount - min(left, amount)
            self._charge(word, min(left, amount))
            left -= min(left, amount)
        for word, intervals in (("compile", self._compiling), *self._phases.items()):
            amount = min(left, seconds(intervals.take(until)))
            self._charge(word, amount)
            left -= amount
        for word, owed in self._late.items():
            amount = min(left, owed)
            self._charge(word, amount)
            self._late[word] -= amount
            left -= amount
        self._unexplained += left
        self._charge(rest, left)
        return over

    def _note_late_phases(self) -> None:
        """What of a phase lies in time that is charged already; no more than was charged without a reason."""
        for word, intervals in self._phases.items():
            amount = min(seconds(intervals.take(self._charged_until)), self._unexplained)
            self._unexplained -= amount
            self._late[word] += amount

    def _charge(self, category: str, amount: float) -> None:
        self.seconds[category] += amount
        self._series.add(core.RUN_SECONDS, (category,), amount)
