"""Seconds of the whole process by category: its time is charged from the beginning on, each second once."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.derive.metrics.catalogue import process_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.model.clock import seconds
from jaxobs.model.intervals import Intervals
from jaxobs.vocabulary.wall_time import CATEGORIES

PHASES = ("checkpoint", "initialisation")
"""Phases that are categories; what lies in any other is `other`."""


class RunSeconds:
    """What time went to is known late, so a moment that is charged already stays as it is: no category ever falls.

    Where the beginning of a phase was lost, what was charged without a reason meanwhile is made good with time that is
    unexplained later.
    """

    def __init__(self, series: Series, began: int) -> None:
        self._series = series
        self._until = began
        self._compiling = Intervals()
        self._phases = {name: Intervals() for name in PHASES}
        self._unexplained = 0.0
        """Seconds that were charged without a reason, and could still turn out to be a phase's."""
        self._late = dict.fromkeys(PHASES, 0.0)
        """Seconds of phases in time that was charged to something else."""
        self.by_category = dict.fromkeys(CATEGORIES, 0.0)
        for category in CATEGORIES:
            series.add(process_metrics.RUN_SECONDS, (category,), 0.0)

    def compiled(self, start: int, end: int) -> None:
        """A compile, in or outside loops."""
        self._compiling.add(start, end)

    def phase_ended(self, name: str, start: int, end: int) -> None:
        """A phase outside loops. Where in it loops lay is not known; they are charged first, and it gets what is left."""
        if name in self._phases:
            self._phases[name].add(start, end)

    def charge(self, until: int, reported: Mapping[str, float], rest: str) -> dict[str, float]:
        """Charge the time up to `until`: what loops `reported`, then compiles and phases outside them, then the `rest`.

        Returns what of `reported` found no time.
        """
        self._note_late_phases()
        left = seconds(max(0, until - self._until))
        if left <= 0:
            return dict(reported)
        self._until = until
        over = {}
        for word, amount in reported.items():
            given = self._give(word, amount, left)
            over[word] = amount - given
            left -= given
        for word, intervals in (("compile", self._compiling), *self._phases.items()):
            left -= self._give(word, seconds(intervals.take(until)), left)
        for word, late in self._late.items():
            given = self._give(word, late, left)
            self._late[word] -= given
            left -= given
        self._unexplained += left
        self._give(rest, left, left)
        return over

    def _note_late_phases(self) -> None:
        """What of a phase lies in time that is charged already; no more than was charged without a reason."""
        for word, intervals in self._phases.items():
            amount = min(seconds(intervals.take(self._until)), self._unexplained)
            self._unexplained -= amount
            self._late[word] += amount

    def _give(self, category: str, amount: float, left: float) -> float:
        """Give the category that many of the seconds that are left; returns how many."""
        given = min(left, amount)
        self.by_category[category] += given
        self._series.add(process_metrics.RUN_SECONDS, (category,), given)
        return given
