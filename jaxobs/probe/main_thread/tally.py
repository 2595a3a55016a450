"""Adds up the samples of about a second by loop, line and activity: one event instead of one a sample.

How long the main thread was on a processor is known exactly, as the system counts it. Samples are scaled to agree with
that, because they are biased: a sampler short of a processor gets one most easily when the main thread leaves its own.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxobs.model.events import MainThreadSampled
from jaxobs.probe.main_thread.stack import Place

MOST_ROWS = 100
"""Most rows of an event. A second has fewer samples than that, but the sender may have been held up."""

MOST_REMAINDER = 10.0
"""Most seconds on a processor that are carried over to later samples: those of one second may be few and show none."""


class Row(NamedTuple):
    """The key by which the seconds of samples are added up."""

    loop: str
    place: Place
    on_processor: bool


Spent = dict[Row, tuple[float, int]]


class Tally:
    """The sums so far. The sampling thread adds to them, the sender takes them."""

    def __init__(self) -> None:
        self._rows: Spent = {}
        self._start = self._end = 0
        self._remainder = 0.0

    def add(self, begin: int, end: int, row: Row, seconds: float) -> None:
        """Add a sample that was taken at `end` and stands for the time since `begin`."""
        rows = self._rows
        if row not in rows and len(rows) >= MOST_ROWS:
            return
        before, samples = rows.get(row, (0.0, 0))
        rows[row] = before + seconds, samples + 1
        self._start, self._end = self._start or begin, end

    def take(self, ran: float | None) -> list[MainThreadSampled]:
        """What was added since the last call, as one event or none.

        `ran`: the share of that time in which the main thread was on a processor or ready for one; None: not known.
        """
        rows, self._rows = self._rows, {}
        rows = dict(rows)  # the other thread may be about to add to the dictionary that it has read
        start, self._start = self._start, 0
        if not rows:
            return []
        factors = {True: 1.0, False: 1.0} if ran is None else self._factors(rows, ran)
        shown = [
            (row.loop, *row.place, factors[row.on_processor] * seconds, samples)
            for row, (seconds, samples) in rows.items()
        ]
        return [MainThreadSampled(start, self._end, tuple(shown))]

    def _factors(self, rows: Spent, ran: float) -> dict[bool, float]:
        """Factors for the samples on a processor (True) and the others (False) that leave their total as it is."""
        whole = sum(seconds for seconds, _ in rows.values())
        running = sum(seconds for row, (seconds, _) in rows.items() if row.on_processor)
        self._remainder = min(
            MOST_REMAINDER, max(-MOST_REMAINDER, self._remainder + min(1.0, max(0.0, ran)) * whole)
        )
        shown = running
        if 0.0 < running < whole:
            shown = min(whole, max(0.0, self._remainder))
        self._remainder -= shown
        waiting = whole - running
        return {
            True: shown / running if running > 0 else 1.0,
            False: (whole - shown) / waiting if waiting > 0 else 1.0,
        }
