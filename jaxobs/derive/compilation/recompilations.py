"""Recompiles: what was compiled again and why, and what it cost.

A function that is compiled while another one is traced is counted by itself: its seconds are subtracted from those of
the function around it, so that no second is in two rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from typing import Any, Final

from jaxobs.derive.metrics.catalogue import compilation_metrics
from jaxobs.derive.metrics.series import Series
from jaxobs.model import events
from jaxobs.model.clock import seconds
from jaxobs.model.figure import Figure, figure
from jaxobs.model.intervals import Span, joined
from jaxobs.vocabulary.words import CAUSES

SPANS_KEPT: Final = 1_000
"""Stretches of compiles remembered for each thread. Where a function makes more executables than this while it is
traced, the time of the oldest of them is counted as its own."""

ROWS: Final = 50
"""Distinct (cause, argument, call site) kept for each function; more are summed by cause alone."""

LOST_IN: Final = ("trace", "lower", "backend")
"""Phases whose time a recompile costs. Reading the persistent cache is part of the backend phase."""

NO_ARGUMENT = {
    "redefined": "the function itself is new, not an argument",
    "context": "a setting changed, not an argument",
}


@dataclass(frozen=True, slots=True)
class RecompilationView:
    """Recompiles of a function for one reason, with the latest example of it."""

    cause: str
    argument: Figure[str]
    old: Figure[str]
    new: Figure[str]
    differences: int
    call_site: Figure[str]
    count: int
    seconds: float


@dataclass(slots=True)
class Row:
    """One reason for recompiles of a function, with the latest example of it."""

    cause: str
    attributes: dict[str, Any]
    count: int = 0
    seconds: float = 0.0

    def view(self) -> RecompilationView:
        """The row as it is shown; `old` and `new` are those of its latest recompile."""
        known = self.attributes
        reason = known.get(events.MISS_REASON) or NO_ARGUMENT.get(self.cause, "too many reasons to keep each")
        return RecompilationView(
            self.cause,
            figure(known.get(events.MISS_ARGUMENT), reason),
            figure(known.get(events.MISS_OLD), reason),
            figure(known.get(events.MISS_NEW), reason),
            known.get(events.MISS_DIFFERENCES, 0),
            figure(call_site(known), "no frame of the program's own was seen, or it was called from several"),
            self.count,
            self.seconds,
        )


class Recompilations:
    """Counts by function and cause, and a ranked table of reasons for each function."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._rows: defaultdict[str, dict[tuple[Any, ...], Row]] = defaultdict(dict)
        self._inner: defaultdict[int, deque[Span]] = defaultdict(lambda: deque(maxlen=SPANS_KEPT))
        for cause in CAUSES:
            series.total(compilation_metrics.RECOMPILATION_SECONDS, (cause,), 0.0)

    def compiled(self, event: events.Compilation) -> None:
        """Count a recompile. A first compile has no row, but its time is subtracted from a recompile around it."""
        own = self._own_time(event)
        if event.recompilation is None:
            return
        lost = seconds(own)
        self.counts[event.function][event.recompilation] += 1
        self._series.add(compilation_metrics.RECOMPILATION_SECONDS, (event.recompilation,), lost)
        attributes = dict(event.attributes)
        key: tuple[Any, ...] = (
            event.recompilation,
            attributes.get(events.MISS_ARGUMENT),
            call_site(attributes),
        )
        rows = self._rows[event.function]
        if key not in rows and len(rows) >= ROWS:
            key, attributes = (event.recompilation,), {}
        row = rows.setdefault(key, Row(event.recompilation, attributes))
        row.attributes = attributes
        row.count += 1
        row.seconds += lost

    def _own_time(self, event: events.Compilation) -> int:
        """Nanoseconds of its phases, less those of executables made within them, which were reported earlier."""
        phases = joined(
            (start, end) for phase, start, end in event.phases if phase in LOST_IN and end > start
        )
        if not phases:
            return 0
        earlier, within = self._inner[event.thread], []
        while earlier and earlier[-1][1] > phases[0][0]:
            within.append(earlier.pop())
        inner = sum(
            max(0, min(stop, end) - max(begin, start)) for begin, stop in within for start, end in phases
        )
        earlier.extend(joined([*within, *phases]))
        return sum(end - start for start, end in phases) - inner

    def views(self, function: str) -> list[RecompilationView]:
        """The reasons for a function's recompiles, the most expensive first."""
        rows = sorted(self._rows.get(function, {}).values(), key=lambda row: (-row.seconds, -row.count))
        return [row.view() for row in rows]


def call_site(attributes: dict[str, Any]) -> str | None:
    """The user's file and line, such as `/home/ada/train.py:42`."""
    path, line = attributes.get(events.CALL_FILE), attributes.get(events.CALL_LINE)
    return None if path is None else f"{path}:{line}"
