"""Seconds of the whole process by category: its time is charged from its start on, each second once."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.model.clock import seconds
from jaxobs.model.intervals import Intervals
from jaxobs.vocabulary.words import CATEGORIES

PHASES = ("checkpoint", "initialisation")
"""Phases that are categories; time in any other phase is `other`."""


class RunSeconds:
    """The seconds charged to each category. A moment once charged stays as it is, so no category ever falls.

    Where the beginning of a phase was lost, its time was charged without a reason before the phase became known: later
    unexplained time is charged to the phase instead.
    """

    def __init__(self, series: Series, began: int) -> None:
        self._series = series
        self._until = began
        self._compiling = Intervals()
        self._phases = {name: Intervals() for name in PHASES}
        self._unexplained = 0.0
        """Seconds charged to the `rest`, without a reason, which may still turn out to be a phase's."""
        self._late = dict.fromkeys(PHASES, 0.0)
        """Seconds of each phase that were charged to the `rest`, to be made up for with later time."""
        self.by_category = dict.fromkeys(CATEGORIES, 0.0)
        for category in CATEGORIES:
            series.add(process_metrics.RUN_SECONDS, (category,), 0.0)

    def compiled(self, start: int, end: int) -> None:
        """Add a compile, in or outside loops."""
        self._compiling.add(start, end)

    def phase_ended(self, name: str, start: int, end: int) -> None:
        """Add a phase outside loops. Loops inside it are charged first, as it is not known when they ran in it."""
        if name in self._phases:
            self._phases[name].add(start, end)

    def charge(self, until: int, reported: Mapping[str, float], rest: str) -> dict[str, float]:
        """Charge the time up to `until`: what loops `reported`, then compiles and phases outside them, then the `rest`.

        Returns the seconds of `reported` for which there was no time left.
        """
        self._note_late_phases()
        left = seconds(max(0, until - self._until))
        if left <= 0:
            return dict(reported)
        self._until = until
        over = {}
        for word, amount in reported.items():
            given = self._charge_to(word, amount, left)
            over[word] = amount - given
            left -= given
        for word, intervals in (("compile", self._compiling), *self._phases.items()):
            left -= self._charge_to(word, seconds(intervals.take(until)), left)
        for word, late in self._late.items():
            given = self._charge_to(word, late, left)
            self._late[word] -= given
            left -= given
        self._unexplained += left
        self._charge_to(rest, left, left)
        return over

    def _note_late_phases(self) -> None:
        """Note phase seconds in time that is charged already, at most those that were charged without a reason."""
        for word, intervals in self._phases.items():
            amount = min(seconds(intervals.take(self._until)), self._unexplained)
            self._unexplained -= amount
            self._late[word] += amount

    def _charge_to(self, category: str, amount: float, left: float) -> float:
        """Charge up to `amount` of the seconds that are `left` to a category; returns how many."""
        given = min(left, amount)
        self.by_category[category] += given
        self._series.add(process_metrics.RUN_SECONDS, (category,), given)
        return given
