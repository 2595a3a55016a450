"""The data that the page is made from, and the choices that its sections share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jaxobs.model.snapshot import Document
from jaxobs.report.page.history import NO_TREND, SECONDS, Trend
from jaxobs.report.sentence import main_loop

_LEAST_SPAN: Final = 60.0
"""Least seconds that a time axis spans, so that the first moments of a run do not race across it."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A process of this job that serves a page, this one included."""

    name: str
    address: str | None
    """Address of its page; None for this process."""


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: the `document` of a snapshot, the history before it as `trend`, and the job's `ranks`."""

    document: Document
    trend: Trend = NO_TREND
    ranks: tuple[Rank, ...] = ()
    wanted_loop: str | None = None
    """The loop that the reader has chosen. Where there is no loop of that name, the one with the most time is shown."""

    @property
    def loops(self) -> Mapping[str, Document]:
        return self.document.get("loops") or {}

    @property
    def loop(self) -> str | None:
        """The loop that is shown in full; None where none was seen."""
        if self.wanted_loop in self.loops:
            return self.wanted_loop
        return main_loop(self.document)

    @property
    def span(self) -> float:
        """Seconds that the time axes of this page reach back."""
        return min(SECONDS, max(_LEAST_SPAN, -self.trend.times[0] if self.trend.times else 0.0))
