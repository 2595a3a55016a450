"""How the time of a loop's steps spread over a run: stretches of equal length, in which the steps' mean is known.

One mean over a run says nothing about how far the next run may lie from it. Means of stretches do, and unlike single
steps they are few and nearly independent ("batch means": Law, Simulation Modeling and Analysis, section 9.5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

SHORTEST_SECONDS: Final = 0.9
"""Snapshots are about a second apart by default: of those that came a little early a quarter was lost at 1.0."""

WINDOWS_KEPT: Final = 64
"""Of each loop. When there are more, neighbours are joined and all become twice as long: 2 s after a minute, 32 s after
half an hour. An interval from 64 stretches is 1.4 times as wide as one from 128, for half the bytes."""

DIGITS: Final = 6
"""Significant ones, in the record: a microsecond in a second."""

Row = dict[str, float]


class StepWindows:
    """The stretches of one loop, made from its entry in one snapshot after another."""

    def __init__(self) -> None:
        self._length = SHORTEST_SECONDS
        self._began: float | None = None
        self._before: Row = {}
        self._rows: list[Row] = []

    def add(self, at: float, loop: Mapping[str, Any]) -> None:
        """The loop's entry in the snapshot taken `at` so many seconds of any steady clock."""
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
        """A column for each figure, one entry a stretch.

        `steps`, `seconds` (the loop's wall time), `examples`, `tokens`, and each component of wall time in seconds as
        `component/NAME`. None where it was not known.
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
    """What began to be known in the second is the sum of both: the first had none of it."""
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in one.keys() | other.keys()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
