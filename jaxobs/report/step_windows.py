"""How a loop's step time varied over a run: its mean in each of many stretches of about equal length.

One mean over a run does not say how far from it the next run may lie. Means of stretches do, and unlike single steps
they are few and nearly independent ("batch means": Law, Simulation Modeling and Analysis, section 9.5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SHORTEST_SECONDS: Final = 0.9
"""Shortest stretch, s. Snapshots are about a second apart by default, some a little less: with 1.0 a quarter of them
came too early to end a stretch."""

WINDOWS_KEPT: Final = 64
"""Most stretches kept of each loop. When there are more, neighbours are merged and all become twice as long: 2 s after
a minute, 32 s after half an hour. An interval from 64 stretches is 1.4 times as wide as one from 128, for half the
bytes."""

DIGITS: Final = 6
"""Significant digits in the record: a microsecond in a second."""

Row = dict[str, float]


class StepWindows:
    """The stretches of one loop, built up from its entries in successive snapshots."""

    def __init__(self) -> None:
        self._length = SHORTEST_SECONDS
        self._began: float | None = None
        self._before: Row = {}
        self._rows: list[Row] = []

    def add(self, at: float, loop: Mapping[str, Any]) -> None:
        """Add the loop's entry in a snapshot that was taken `at` this time, in seconds of any steady clock."""
        totals = _totals(loop)
        if self._began is None:
            self._began = at  # what was before the first snapshot belongs to the first stretch
        if at - self._began < self._length or totals["steps"] <= self._before.get("steps", 0.0):
            return
        self._rows.append(
            {name: max(0.0, value - self._before.get(name, 0.0)) for name, value in totals.items()}
        )
        self._began, self._before = at, totals
        if len(self._rows) > WINDOWS_KEPT:
            self._length *= 2
            even = len(self._rows) // 2 * 2
            pairs = [_sum(*self._rows[index : index + 2]) for index in range(0, even, 2)]
            self._rows = pairs + self._rows[even:]

    def to_dict(self) -> dict[str, list[float | None]]:
        """A column for each figure, with one entry for each stretch; None where it was not known.

        The columns are `steps`, `seconds` (the loop's wall time), `examples`, `tokens`, and the seconds of each
        component of wall time as `component/NAME`.
        """
        names = sorted({name for row in self._rows for name in row})
        return {name: [_rounded(row.get(name)) for row in self._rows] for name in names}


def _totals(loop: Mapping[str, Any]) -> Row:
    given = {
        "steps": loop.get("steps"),
        "seconds": loop.get("wall_seconds"),
        "examples": loop.get("examples"),
        "tokens": loop.get("tokens"),
        **{f"component/{name}": spent for name, spent in (loop.get("components") or {}).items()},
    }
    return {"steps": 0.0} | {name: float(value) for name, value in given.items() if value is not None}


def _sum(one: Row, other: Row) -> Row:
    """The sums of two neighbouring stretches. A figure that one of them lacks counts as 0 there."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
