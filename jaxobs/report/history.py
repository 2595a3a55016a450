"""The last hour of what the page draws over time, in bounded memory: at most POINTS moments of COLUMNS values.

A run's first minutes are kept second by second. When there are too many moments, every other one is dropped, and those to
come are twice as far apart. Counters are kept as totals, so that the difference of two moments is exact at any spacing.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jaxobs.model.snapshot import longest_loops
from jaxobs.report.values import is_number

POINTS: Final = 360
SECONDS: Final = 3600.0
COLUMNS: Final = 120
"""Most columns. With POINTS values of 8 bytes each they take 350 kB at most; a loop has some 20."""

_EARLY: Final = 0.3
"""Seconds by which a moment may be early: snapshots come once a second, give or take a little."""

_LOOPS: Final = 4
_RECORDED: Final = 8
"""Values recorded by the user that are kept for each loop."""

_OF_A_LOOP: Final = ("steps_per_second", "tokens_per_second", "mfu")

AFTER: Final = 5.0
"""Seconds after a loop's end in which its rates and what it recorded are kept: its last ones come then, and those of an
evaluation."""

_FUNCTIONS: Final = 40
"""Most functions whose recompiles are kept."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """A copy of the history. `times` are seconds relative to the newest snapshot, ascending, the last one 0."""

    times: tuple[float, ...]
    columns: Mapping[Key, tuple[float, ...]]
    """One value for each time, NaN where it was not known: `("loops", "train", "components", "input")`, …"""

    def column(self, *key: str) -> tuple[float, ...]:
        """The column of that key, all NaN where it was never known."""
        return self.columns.get(key) or (math.nan,) * len(self.times)

    def below(self, *prefix: str) -> dict[str, tuple[float, ...]]:
        """The columns whose keys are one word longer than `prefix`, by that word, in order of appearance."""
        return {key[-1]: column for key, column in self.columns.items() if key[:-1] == prefix}


NO_TREND: Final = Trend((), {})


class History:
    """The numbers of the last hour's snapshots that the page draws. Not thread-safe."""

    def __init__(self) -> None:
        self._times = array("d")
        self._columns: dict[Key, array[float]] = {}
        self._spacing = 1.0

    def is_due(self, seconds: float) -> bool:
        """Whether a moment would be kept, as it does not come too soon after the last one."""
        return not self._times or seconds - self._times[-1] >= self._spacing - _EARLY

    def add(self, seconds: float, document: Mapping[str, Any]) -> None:
        """Add the numbers of a snapshot's document, taken at `seconds`, if a moment is due."""
        if not self.is_due(seconds):
            return
        values = dict(_values(document))
        for key in values:
            if key not in self._columns and self._has_room(key):
                self._columns[key] = array("d", [math.nan] * len(self._times))
        self._times.append(seconds)
        for key, column in self._columns.items():
            column.append(values.get(key, math.nan))
        self._forget(seconds)

    def _has_room(self, key: Key) -> bool:
        """Whether a new column may be kept.

        A loop's components are always kept: without some of them its shares would not add up. The first functions stay:
        one that replaced another would look as if it had just been compiled.
        """
        if "components" in key:
            return True
        functions = sum(known[0] == "functions" for known in self._columns) if key[0] == "functions" else 0
        return len(self._columns) < COLUMNS and functions < _FUNCTIONS

    def trend(self) -> Trend:
        """A copy of the times, relative to the newest, and of every column."""
        newest = self._times[-1] if self._times else 0.0
        times = tuple(time - newest for time in self._times)
        return Trend(times, {key: tuple(column) for key, column in self._columns.items()})

    def _forget(self, now: float) -> None:
        """Keep the moments of the last SECONDS, and of more than POINTS every other one, the newest among them."""
        times, every = self._times, 1
        if len(times) > POINTS:
            self._spacing *= 2
            every = 2
        newest = len(times) - 1
        kept = [index for index in range(newest % every, newest + 1, every) if times[index] >= now - SECONDS]
        if len(kept) < len(times):
            self._times = array("d", [times[at] for at in kept])
            found = {key: array("d", [column[at] for at in kept]) for key, column in self._columns.items()}
            self._columns = {key: column for key, column in found.items() if not all(map(math.isnan, column))}


def _values(document: Mapping[str, Any]) -> Iterator[tuple[Key, float]]:
    loops = document.get("loops") or {}
    for name in longest_loops(document)[:_LOOPS]:
        loop = loops[name]
        yield from _numbers(("loops", name, "components"), loop.get("components"))
        if (loop.get("left_seconds") or 0.0) < AFTER:
            yield from _numbers(("loops", name), {key: loop.get(key) for key in _OF_A_LOOP})
            yield from list(_numbers(("loops", name, "recorded"), loop.get("recorded")))[:_RECORDED]
    holders = [("process", document.get("process") or {})]
    holders += [(f"device {device.get('device')}", device) for device in document.get("devices") or ()]
    sizes = {name: (holder.get("memory") or {}).get("in_use_bytes") for name, holder in holders}
    yield from _numbers(("memory",), sizes)
    for name, compiled in (document.get("functions") or {}).items():  # last: there may be many
        if count := compiled.get("recompilation_count"):
            yield from _numbers(("functions", name), {"recompilations": count})


def _numbers(prefix: Key, values: Any) -> Iterator[tuple[Key, float]]:
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if is_number(value):
            yield (*prefix, str(name)), float(value)
