"""Compares the records of two runs: whether a step became slower, by its interval, and what differs, largest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from jaxobs.report.differences import (
    Difference,
    Row,
    differences,
    growth,
    median,
    other_figures,
    step_seconds,
)
from jaxobs.report.noise import CONFIDENCE, RUN_TO_RUN, Change, ratio
from jaxobs.report.record import Record
from jaxobs.report.tables import Column, known_columns, plain_table
from jaxobs.report.text_table import PLAIN_WIDTH, TextTable, to_text
from jaxobs.vocabulary.units import (
    count,
    duration,
    or_absent,
    signed_percent,
)

MIN_PART: Final = 0.005
"""Share of a step below which a component gets no row."""


NO_REASON: Final = "Nothing in the records tells why."


INTERVALS: Final = (
    f"The intervals are of {CONFIDENCE:.0%}, from how the runs varied within themselves; below {RUN_TO_RUN:.0%} two "
    "runs differ anyway. Figures without an interval are one value of each run."
)


@dataclass(frozen=True, slots=True)
class StepTime:
    """A loop's step time in both runs: the median over stretches, in seconds, and the change of its logarithm."""

    loop: str
    before: float | None
    after: float | None
    change: Change | None
    reason: str = ""
    """Why `change` is None, if it is."""

    @property
    def verdict(self) -> str:
        """The verdict: `slower`, `faster`, `within the noise` or `cannot be told`."""
        if self.change is None:
            return "cannot be told"
        if not self.change.beyond(math.log1p(RUN_TO_RUN)):
            return "within the noise"
        return "slower" if self.change.estimate > 0 else "faster"

    def sentence(self) -> str:
        """Whether the loop became slower or faster, and by how much."""
        if self.change is None:
            return f"Whether `{self.loop}` became slower cannot be told: {self.reason}."
        both = f"{duration(self.after or 0.0)} a step instead of {duration(self.before or 0.0)}"
        figures = f"{both}, {relative(self.change)}"
        if self.verdict == "within the noise":
            return f"`{self.loop}` is as fast in B as in A, as far as the noise lets one see: {figures}."
        return f"`{self.loop}` is {self.verdict} in B: {figures}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data. A factor that is not known is None, with its reason."""
        change = self.change
        return {
            "loop": self.loop,
            "before_seconds": self.before,
            "after_seconds": self.after,
            "factor": change and math.exp(change.estimate),
            "factor_low": change and math.exp(change.low),
            "factor_high": change and math.exp(change.high),
            "factor_reason": self.reason or None,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The whole comparison of two records. `print(comparison)` shows it, and so does a notebook."""

    before: Record
    after: Record
    step_times: tuple[StepTime, ...]
    differences: tuple[Difference, ...]
    """The largest first; those that are no figures come last."""
    headers: tuple[Row, ...]
    """Which runs they are."""
    not_compared: tuple[str, ...]
    """What could not be compared, and why."""

    @property
    def tables(self) -> dict[str, list[Row]]:
        """The tables by their titles: what differs, the parts of a step of each loop, and other figures."""
        found = {"what differs, largest first": [each.row for each in self.differences]}
        for time in self.step_times:
            found[f"seconds a step of {time.loop}"] = list(_step_rows(time, self.before, self.after))
        found["other figures that differ, largest first"] = other_figures(
            [time.loop for time in self.step_times], self.before, self.after
        )
        return {title: rows for title, rows in found.items() if rows}

    def notes(self) -> Iterator[str]:
        """Sentences below the verdicts: that nothing tells why one is slower."""
        if not self.differences and any(time.verdict in {"slower", "faster"} for time in self.step_times):
            yield NO_REASON

    def text(self, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
        """The comparison as text, without a newline at its end; A is the first run and B the second."""
        return to_text(self._parts(), width=width, bold=bold)

    def _parts(self) -> Iterator[TextTable | str]:
        yield _table("", self.headers)
        yield from chain([""], (time.sentence() for time in self.step_times), self.notes())
        for title, rows in self.tables.items():
            yield from ("", _table(title, rows))
        if left := self.not_compared:
            yield from ("", "not compared:", *(f"  {line}" for line in left))
        yield from ("", INTERVALS)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from jaxobs.report.notebook import comparison_html

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for programs: step times with their factors, differences and tables."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "step_times": [time.to_dict() for time in self.step_times],
            "differences": [{"cause": each.cause, **asdict(each.row)} for each in self.differences],
            "tables": {title: [asdict(row) for row in rows] for title, rows in self.tables.items()},
            "not_compared": list(self.not_compared),
        }


def compare(before: Record, after: Record) -> Comparison:
    """Compare the second run with the first. Pure: the same records give the same comparison."""
    loops = _common_loops(before, after)
    return Comparison(
        before,
        after,
        tuple(step_time(loop, before, after) for loop in loops),
        tuple(differences(loops, before, after)),
        tuple(_headers(before, after)),
        tuple(_not_compared(before, after)),
    )


def step_time(loop: str, before: Record, after: Record) -> StepTime:
    """A loop's step time, without compiles and checkpoints, in both runs, and its change."""
    one, other = (step_seconds(record.part("windows", loop)) for record in (before, after))
    old, new = (median(values) if values else None for values in (one, other))
    for record, values in ((before, one), (after, other)):
        if not values:
            return StepTime(loop, old, new, None, f"{record.name} has no step of `{loop}` that was timed")
    change = ratio(one, other)
    if change is None:
        few = f"{len(one)} and {len(other)} stretches of a second or more, fewer where neighbours are alike, are too few"
        return StepTime(loop, old, new, None, f"{few} to tell noise from change: let the runs last a minute")
    return StepTime(loop, old, new, change)


def relative(change: Change) -> str:
    """A change of logarithms in per cent, such as `+25 % (+20 % to +29 %)`."""
    low, middle, high = (
        signed_percent(math.exp(value) - 1) for value in (change.low, change.estimate, change.high)
    )
    return f"{middle} ({low} to {high})"


def step_parts(record: Record, loop: str) -> dict[str, float]:
    """Seconds per step of each component, the mean over the run; empty if no step was counted."""
    columns = record.part("windows", loop)
    steps = sum(each or 0.0 for each in columns.get("steps", ()))
    return {
        name.removeprefix("component/"): sum(value or 0.0 for value in values) / steps
        for name, values in columns.items()
        if steps and name.startswith("component/")
    }


def _common_loops(before: Record, after: Record) -> list[str]:
    """The names of the loops that both runs have, the longest first."""
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    wall = {
        name: sum(float(loops[name].get("wall_seconds") or 0.0) for loops in (one, other))
        for name in one.keys() & other.keys()
    }
    return sorted(wall, key=lambda name: (-wall[name], name))


def _step_rows(time: StepTime, before: Record, after: Record) -> Iterator[Row]:
    """The step time with its interval, and the seconds per step of each component, the largest first."""
    old, new = (or_absent(value, duration) for value in (time.before, time.after))
    yield Row("step", old, new, "" if time.change is None else relative(time.change), time.verdict)
    one, other = (step_parts(record, time.loop) for record in (before, after))
    least = MIN_PART * max(sum(one.values()), sum(other.values()))
    both = {name: (one.get(name, 0.0), other.get(name, 0.0)) for name in sorted(one.keys() | other.keys())}
    for name, (spent, spends) in sorted(both.items(), key=lambda pair: -max(pair[1])):
        if max(spent, spends) >= least:
            yield Row(name, duration(spent), duration(spends), growth(spent, spends))


def _headers(before: Record, after: Record) -> Iterator[Row]:
    yield Row("record", before.name, after.name)
    yield Row("began", _moment(before.content.get("began")), _moment(after.content.get("began")))
    one, other = (record.part("snapshot", "process") for record in (before, after))
    yield Row("run", str(one.get("run") or ""), str(other.get("run") or ""))
    yield Row("lasted", duration(one.get("seconds") or 0.0), duration(other.get("seconds") or 0.0))
    loops = (record.part("snapshot", "loops") for record in (before, after))
    steps = (
        ", ".join(f"{name} {count(loop.get('steps') or 0)}" for name, loop in each.items()) for each in loops
    )
    yield Row("steps", *steps)
    ranks = [
        f"{process.get('process_index', 0)} of {process.get('process_count') or 1}"
        for process in (one, other)
    ]
    if ranks != ["0 of 1", "0 of 1"]:
        yield Row("rank", *ranks)


def _moment(unix: object) -> str:
    if not isinstance(unix, int | float):
        return "unknown"
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _not_compared(before: Record, after: Record) -> Iterator[str]:
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    for name in sorted(one.keys() ^ other.keys()):
        holder = before if name in one else after
        yield f"loop `{name}`: only {holder.name} has it"
    if not one.keys() & other.keys():
        yield "step time: the two have no loop in common"
    for record in (before, after):
        process = record.part("snapshot", "process")
        if process.get("counts_begin_seconds") is not None:
            since = duration(process["counts_begin_seconds"])
            yield f"the first {since} of {record.name}: its agent was lost, and with it what it had counted"
        if record.part("host").get("other_cpus") is None:
            reason = record.part("host").get("other_cpus_reason") or "it has no figures of the host"
            yield f"other load during {record.name}: {reason}"


COMPARED: Final = tuple(
    Column(title, itemgetter(name), text=True)
    for title, name in (("", "what"), ("A", "before"), ("B", "after"), ("change", "change"), ("", "verdict"))
)
"""The columns of rows as plain data."""


def _table(title: str, rows: Sequence[Row]) -> TextTable:
    found = [asdict(row) for row in rows]
    columns = known_columns(COMPARED, found)
    return plain_table(columns, found, title=title, write=lambda column, row: column.show(row) or "")
