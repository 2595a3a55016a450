"""The lines at which the main thread was sampled: a table for the snapshot, and series for those with the most time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from jaxobs.model.cost import Frame
from jaxobs.model.figure import Figure
from jaxobs.roofline_model.call_tree import Part, call_tree
from jaxobs.roofline_model.operation_work import Work
from jaxobs.vocabulary.text import OTHER

LINES_KEPT: Final = 300
"""Most rows kept; the seconds of others go to OTHER. A program has some dozens of lines that take time."""

LINES_SHOWN: Final = 20
"""Rows of the table: what has less time than the first twenty is not worth reading."""

UNTAKEN_KEPT: Final = 4_096
"""Newest samples kept until a stretch takes them: one for each line that was seen in about a second."""

SERIES: Final = 12
"""Rows with series of their own, in each loop: those that reached MIN_SHARE first. They are never taken back."""

FRAMES_SHOWN: Final = 100
"""Most frames of a tree of calls: those with the most time. One has some 120 bytes in a document."""

MIN_SHARE: Final = 0.01
"""Share of a loop's sampled time from which on a row may have a series of its own."""

NOT_SAMPLED: Final = (
    "no sample of the main thread's stack is known: it has just begun, the setting host_lines is off, "
    "the job has further interpreters, or the loop runs on another thread"
)


Row = dict[str, Any]
"""What is shown of a line: its parts, all its `seconds`, and its `share` of the loop's time that was sampled of late."""


def place_of(line: str) -> tuple[tuple[str, str], int]:
    """File and function, and the number of the line, of `train.py:12 main`; the number is -1 where there is none."""
    place, _, function = line.partition(" ")
    file, _, number = place.rpartition(":")
    return (file, function), int(number) if number.isdecimal() else -1


def _frame(line: str) -> Frame:
    """The line as a frame; a call that is no line of a file is all name."""
    (file, function), number = place_of(line)
    return Frame(function, file, number) if file and number >= 0 else Frame(line, "", 0)


class HostLine(NamedTuple):
    """One row: a line as the user knows it, what it waits in below that, and what the main thread did there."""

    line: str
    waits_in: str
    activity: str


OTHERS: Final = HostLine(OTHER, OTHER, OTHER)


class HostLines:
    """Sampled seconds of the main thread in one loop, or outside loops."""

    def __init__(self) -> None:
        self.seconds: dict[HostLine, float] = {}
        """Sampled seconds so far by row."""
        self.samples = 0
        self._paths: dict[tuple[str, ...], dict[str, float]] = {}
        """The same seconds by the lines of the stack, outermost first, and by activity."""
        self._calls: Figure[list[Row]] | None = Figure(None, NOT_SAMPLED)
        """None after a sample, until somebody asks."""
        self._new: set[HostLine] = set()
        self._in_series: set[HostLine] = set()
        self._untaken: deque[tuple[int, HostLine, float]] = deque(maxlen=UNTAKEN_KEPT)
        """When each was sampled, the row, and its seconds, of those that nobody has taken yet."""

    def add(self, line: HostLine, seconds: float, samples: int, callers: tuple[str, ...], time: int) -> None:
        """Add `seconds` that were sampled around this time at this line, which these lines have called."""
        self.samples += samples
        if not seconds:
            return
        path = (*callers, line.line, *filter(None, [line.waits_in]))
        if path not in self._paths and len(self._paths) >= LINES_KEPT:
            path = (OTHER,)
        spent = self._paths.setdefault(path, {})
        spent[line.activity] = spent.get(line.activity, 0.0) + seconds
        self._calls = None
        kept = line if line in self.seconds or len(self.seconds) < LINES_KEPT else OTHERS
        self._untaken.append((time, kept._replace(activity=line.activity), seconds))
        self.seconds[kept] = self.seconds.get(kept, 0.0) + seconds
        self._new.add(kept)

    def take(self, until: int) -> defaultdict[HostLine, float]:
        """Take the seconds that were sampled before `until` and not taken yet."""
        taken: defaultdict[HostLine, float] = defaultdict(float)
        while self._untaken and self._untaken[0][0] < until:
            _, line, spent = self._untaken.popleft()
            taken[line] += spent
        return taken

    def counts(self) -> Iterator[tuple[HostLine, HostLine, float]]:
        """Each line that was sampled since the last call, the labels of the series that it belongs to, and its seconds.

        The largest have series of their own.
        """
        total = sum(self.seconds.values())
        new, self._new = self._new, set()
        for line in sorted(new, key=lambda line: -self.seconds[line]):
            if len(self._in_series) < SERIES and self.seconds[line] >= MIN_SHARE * total:
                self._in_series.add(line)
            yield line, line if line in self._in_series else OTHERS, self.seconds[line]

    def calls(self) -> Figure[list[Row]]:
        """The sampled time as a tree of calls, each frame before those that it called; or why there is none."""
        if self._calls is None:
            self._calls = Figure(list(self._tree()))
        return self._calls

    def _tree(self) -> Iterator[Row]:
        total = sum(self.seconds.values())
        parts = (
            Part(tuple(map(_frame, path)), activity, Work(spent))
            for path, by_activity in self._paths.items()
            for activity, spent in by_activity.items()
        )
        for node in call_tree(parts, FRAMES_SHOWN):
            frame, seconds = node.frame, node.work.seconds
            ((activity, _),) = node.labels.most_common(1)
            yield {
                "depth": node.depth, "name": frame.function, "file": frame.file, "line": frame.line,
                "seconds": seconds, "share": seconds / total, "activity": activity,
            }  # fmt: skip

    def rows(self, newest: Mapping[HostLine, float] | None = None) -> Figure[list[Row]]:
        """The rows with the most time of late, then with the most seconds; or why there are none.

        Of late is in `newest`, the seconds taken that other figures are of, and since the last of these were taken; where
        nobody takes any, all are.
        """
        if not self.seconds:
            return Figure(None, NOT_SAMPLED)
        of_late: defaultdict[HostLine, float] = defaultdict(float)
        untaken = (each[1:] for each in self._untaken if newest is not None)
        for line, spent in chain((newest or {}).items(), untaken):
            of_late[line if line in self.seconds else OTHERS] += spent
        known = of_late or self.seconds
        total = sum(known.values())
        ranked = sorted(self.seconds.items(), key=lambda item: (-known.get(item[0], 0.0), -item[1]))
        return Figure([
            {**line._asdict(), "seconds": spent, "share": known.get(line, 0.0) / total}
            for line, spent in ranked[:LINES_SHOWN]
        ])  # fmt: skip


def by_activity(sampled: Mapping[HostLine, float]) -> dict[str, float]:
    """Sampled seconds by what the thread did."""
    found: defaultdict[str, float] = defaultdict(float)
    for line, spent in sampled.items():
        found[line.activity] += spent
    return found
