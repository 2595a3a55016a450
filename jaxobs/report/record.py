"""The record of a run: what one process knew of itself, small enough to be kept for every run and read years later.

Its keys are a contract (docs/questions/what_changed.md): `format`, `version`, `state`, `written`, `began`, `settings`,
`environment`, `versions`, `windows` (by loop) and `snapshot`, whose keys are those of every snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, get_args

from jaxobs.model.clock import NANOSECONDS, wall_now
from jaxobs.model.figure import Figure
from jaxobs.model.snapshot import compile_seconds
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import read_json
from jaxobs.vocabulary.words import State

FORMAT: Final = "jaxobs run record"
VERSION: Final = 1
"""Raised when a key changes its meaning or goes; a key that is added does not raise it."""

LOST_AFTER: Final = 3
"""Times that the writing of a record may fall due and not happen before its run is taken to be lost with its agent."""

MAX_BYTES: Final = 1_000_000
ENTRIES_KEPT: Final = (200, 100, 50, 20, 8, 3)
"""How many of the largest executables, operations, functions and loops are kept: each number is tried until the
record is small enough. 200 executables, with the reasons for what is not known of them, are some 600 kB."""

MIN_KEPT_WITH_DEVICE_TIME: Final = 50
"""Entries of other kinds from which on device time by call path is kept: it has some 200 kB."""

Content = dict[str, Any]


class RecordError(InputError, ValueError):
    """Raised for a file that is no record of a run, or one of an unknown version; the message says which."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. `name`, by which people know it, is that of its file, or of its run's folder."""

    name: str
    content: Mapping[str, Any]
    path: Path = Path()

    @property
    def snapshot(self) -> Mapping[str, Any]:
        """The last snapshot's document."""
        document: Mapping[str, Any] = self.content["snapshot"]
        return document

    def part(self, *keys: str) -> Mapping[str, Any]:
        """The object at this path of keys in the record; empty where there is none."""
        found: Any = self.content
        for key in keys:
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) else {}

    def entries(self, key: str) -> list[Mapping[str, Any]]:
        """The objects in a list of the snapshot; empty where there is none."""
        return [entry for entry in self.snapshot.get(key) or [] if isinstance(entry, Mapping)]


def encoded(record: Content) -> bytes:
    """The record as strict JSON of at most MAX_BYTES, with fewer entries where it would be larger.

    Raises ValueError where it is too large even with the fewest entries.
    """
    for kept in ENTRIES_KEPT:
        data = json.dumps(_with_at_most(record, kept), allow_nan=False, separators=(",", ":")).encode("ascii")
        if len(data) <= MAX_BYTES:
            return data
    raise ValueError(
        f"the record would have {len(data):,} bytes with {kept} entries of each kind; {MAX_BYTES:,} are allowed"
    )


def decoded(data: bytes, name: str) -> Record:
    """The record in a file's bytes. Raises RecordError, which says what is wrong, where they hold none."""
    try:
        content = read_json(data)
    except ValueError as error:
        why = "" if isinstance(error, json.JSONDecodeError | UnicodeDecodeError) else f": {error}"
        raise RecordError(f"{name} is no JSON, so no record of a run{why}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        instead = f"its `format` is not {FORMAT!r}; `jaxobs runs` lists what jobs left"
        raise RecordError(f"{name} is no record of a run: {instead}")
    if (version := content.get("version")) != VERSION:
        cure = "take the jaxobs that wrote it, or a newer one"
        raise RecordError(f"{name} is of version {version!r}, and this jaxobs reads {VERSION}: {cure}")
    if not isinstance(content.get("snapshot"), dict):
        raise RecordError(f"{name} has no `snapshot`: it is not whole")
    return Record(name, content)


def state_of(record: Record) -> str:
    """How a run is or how it ended; `lost` where its agent was lost too, as with the machine. Raises ValueError."""
    state = record.content["state"]
    if state not in get_args(State):
        raise ValueError(f"{state!r} is no state of a run")
    silent = wall_now() / NANOSECONDS - float(record.content["written"])
    due = LOST_AFTER * float(record.part("settings").get("run_interval") or 0.0)
    return "lost" if state == "running" and silent > due else str(state)


_SIZES: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "executables": lambda entry: float(entry.get("seconds") or entry.get("profiled_seconds") or 0.0),
    "operations": lambda entry: float(entry.get("share") or entry.get("self_seconds") or 0.0),
    "functions": compile_seconds,
    "loops": lambda entry: float(entry.get("wall_seconds") or 0.0),
}
"""The parts of a snapshot of which the largest entries are kept, and what makes an entry large."""


def _with_at_most(record: Content, kept: int) -> Content:
    """The record with so many entries of each kind, in their order; how many are left out stands beside them."""
    snapshot = dict(record["snapshot"])
    for part, size in _SIZES.items():
        entries = snapshot.get(part) or {}
        by_name = entries if isinstance(entries, Mapping) else dict(enumerate(entries))
        largest = set(sorted(by_name, key=lambda name: -size(by_name[name]))[:kept])
        left = [entry for name, entry in by_name.items() if name not in largest]
        if left:
            found = {name: entry for name, entry in by_name.items() if name in largest}
            snapshot[part] = found if entries is by_name else list(found.values())
            snapshot[f"{part}_left_out"] = (snapshot.get(f"{part}_left_out") or 0) + len(left)
        if left and part == "functions":
            before = snapshot.get("functions_left_out_seconds") or 0.0
            snapshot["functions_left_out_seconds"] = before + sum(map(compile_seconds, left))
    if kept < MIN_KEPT_WITH_DEVICE_TIME and snapshot.get("device_time"):
        snapshot |= Figure(None, "the record of the run would have been too large").under("device_time")
    loops = snapshot.get("loops") or {}
    windows = {name: columns for name, columns in record["windows"].items() if name in loops}
    return {**record, "windows": windows, "snapshot": snapshot}


MIN_SECONDS: Final = 0.9
"""Least wall time of the loop in a stretch, s. Snapshots are about a second apart by default, some a little less: with
1.0 a quarter of them came too early to end a stretch."""

MAX_WINDOWS: Final = 64
"""Most stretches kept of each loop. When there are more, neighbours are merged and all become twice as long: 2 s after
a minute, 32 s after half an hour. An interval from 64 stretches is 1.4 times as wide as one from 128, for half the
bytes."""

DIGITS: Final = 6
"""Significant digits in the record: a microsecond in a second."""

Row = dict[str, float]


class StepWindows:
    """The stretches of one loop, built up from its entries in successive snapshots."""

    def __init__(self) -> None:
        self._length = MIN_SECONDS
        self._ends: list[Row] = [{"steps": 0.0, "seconds": 0.0}]
        """What was counted by the end of each stretch; the first is where the loop began."""

    def add(self, loop: Mapping[str, Any]) -> None:
        """Add the loop's entry in a snapshot."""
        totals, before = _totals(loop), self._ends[-1]
        if totals["seconds"] - before["seconds"] < self._length or totals["steps"] <= before["steps"]:
            return
        self._ends.append(totals)
        if len(self._ends) > MAX_WINDOWS + 1:
            self._length *= 2
            self._ends = [*self._ends[:-1:2], totals]

    def to_dict(self) -> dict[str, list[float | None]]:
        """A column for each figure, with one entry for each stretch; None where it was not known.

        The columns are `steps`, `seconds` (the loop's wall time), `examples`, `tokens`, and the seconds of each
        component of wall time as `component/NAME`.
        """
        names = sorted({name for end in self._ends[1:] for name in end})
        return {name: [_grown(name, *ends) for ends in pairwise(self._ends)] for name in names}


def _totals(loop: Mapping[str, Any]) -> Row:
    columns = {"steps": "steps", "seconds": "wall_seconds", "examples": "examples", "tokens": "tokens"}
    given = {name: loop.get(key) for name, key in columns.items()}
    given |= {f"component/{name}": spent for name, spent in (loop.get("components") or {}).items()}
    known = {name: float(value) for name, value in given.items() if value is not None}
    return {"steps": 0.0, "seconds": 0.0} | known


def _grown(name: str, before: Row, after: Row) -> float | None:
    """By how much a figure has grown from one end to the next, in DIGITS; None if it is not known at that."""
    return float(f"{max(0.0, after[name] - before.get(name, 0.0)):.{DIGITS}g}") if name in after else None
