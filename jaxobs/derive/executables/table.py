"""Chooses which executables are shown: the largest are listed, and some have series of their own."""

from __future__ import annotations

from jaxobs.derive.executables.executable import Executable
from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.executables.view import ExecutableView, executable_view
from jaxobs.derive.metrics.catalogue import executable_metrics
from jaxobs.derive.metrics.selection import Largest, Selection
from jaxobs.derive.metrics.series import Series
from jaxobs.model.figure import Figure
from jaxobs.vocabulary.text import OTHER

LISTED = 300
"""Most executables in a snapshot: an entry takes 30 µs and 1.4 kB (measured)."""


class ExecutableTable:
    """Views of the executables that are shown. At most `limit` of them have series of their own."""

    def __init__(self, executables: Executables, series: Series, limit: int) -> None:
        self._executables = executables
        self._series = series
        self._selection: Selection[int] = Selection(limit)
        self._longest: Largest[int] = Largest(LISTED)
        self._weights: dict[int, tuple[float, ...]] = {}
        self.views: dict[int, ExecutableView] = {}
        """Views by number, of executables that are listed or have series of their own."""
        self.listed: list[int] = []
        """The executables with the most device time, in order, and the one that needs the most memory."""
        self.shown: list[int] = []
        """Numbers of the executables that have series of their own."""

    def update(self) -> None:
        """Bring views and counters up to date. The time taken grows with the executables that changed, not with all."""
        changed = self._executables.settle()
        for executable in changed:
            self.views.pop(executable.number, None)
            self._weights[executable.number] = _weight(executable)
        named = [executable.number for executable in changed if executable.fingerprint]
        shown = self._selection.choose(self._weights, named)
        self._list([executable.number for executable in changed])
        for executable in changed:
            if executable.fingerprint and self._executables.why_no_runs(executable) is None:
                own = (executable.function, executable.fingerprint)
                labels = own if executable.number in shown else (OTHER, OTHER)
                key, total = (str(executable.number),), self._series.total
                total(executable_metrics.EXECUTABLE_RUNS, labels, executable.runs, key)
                if executable.seconds:
                    total(executable_metrics.EXECUTABLE_SECONDS, labels, executable.seconds, key)
        self.shown = sorted(shown)
        self.views = {
            number: self.views.get(number) or self._view(number)
            for number in dict.fromkeys([*self.listed, *self.shown])
        }

    def left_out(self) -> Figure[int]:
        """How many executables are in no list."""
        count = max(0, len(self._executables) - LISTED)
        reason = f"the {LISTED} with the most device time, else FLOPs, are listed" if count else None
        return Figure(count, reason)

    def _list(self, changed: list[int]) -> None:
        self.listed = list(self._longest.update(self._weights, changed))
        largest = self._executables.largest
        if largest is not None and largest.number not in self.listed:
            self.listed[-1] = largest.number

    def _view(self, number: int) -> ExecutableView:
        executable = self._executables[number]
        return executable_view(executable, self._executables.why_no_runs(executable), self._executables.peaks)


def _weight(executable: Executable) -> tuple[float, ...]:
    """The rank of an executable: its device seconds, then the FLOPs of a run."""
    return max(
        executable.seconds, executable.windows.seconds
    ), executable.work.flops if executable.work else 0.0
