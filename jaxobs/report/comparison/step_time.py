"""How long a step of each loop took in both runs, by component, and whether that differs by more than the noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jaxobs.report.comparison.finding import Cause, Effect, Finding, Row, StepTime
from jaxobs.report.comparison.noise import RUN_TO_RUN, Change, factor, ratio, shift
from jaxobs.report.record import Record
from jaxobs.report.units import duration, or_absent, percent

APART: Final = ("compile", "checkpoint")
"""Components that come in few steps: they are compared as seconds of the run, and step time is without them."""

LEAST_SHARE: Final = 0.05
"""Of a step: a wait for input that grew by less is no reason for anything. Of two runs of one program, one on a busy
machine, it differed by 2.5 % (measured), as less of the loader's work was hidden."""

LEAST_SHOWN: Final = 0.005
"""Of a step: smaller components get no row."""

Columns = Mapping[str, list[float | None]]


def step_time(loop: str, before: Record, after: Record) -> StepTime:
    """Step time without compiles and checkpoints."""
    one, other = (_step_seconds(record.part("windows", loop)) for record in (before, after))
    old, new = (statistics.median(values) if values else None for values in (one, other))
    for record, values in ((before, one), (after, other)):
        if not values:
            return StepTime(loop, old, new, None, f"{record.name} has no step of `{loop}` that was timed")
    change = ratio(one, other)
    if change is None:
        few = f"{len(one)} and {len(other)} stretches of a second or more, fewer where neighbours are alike, are too few"
        return StepTime(loop, old, new, None, f"{few} to tell noise from change: let the runs last a minute")
    return StepTime(loop, old, new, change)


def verdict(time: StepTime) -> str:
    """`slower`, `faster`, `within the noise`, or that it cannot be told."""
    if time.change is None:
        return "cannot be told"
    if not time.change.beyond(math.log1p(RUN_TO_RUN)):
        return "within the noise"
    return "slower" if time.change.estimate > 0 else "faster"


def step_row(time: StepTime) -> Row:
    """Step time of both, and the change with its interval."""
    old, new = (or_absent(value, duration) for value in (time.before, time.after))
    return Row("step", old, new, "" if time.change is None else relative(time.change), verdict(time))


def component_rows(loop: str, before: Record, after: Record) -> Iterator[Row]:
    """Seconds a step of each component, the mean over the run."""
    one, other = (component_seconds(record.part("windows", loop)) for record in (before, after))
    for name in one.keys() | other.keys():
        old, new = one.get(name, 0.0), other.get(name, 0.0)
        if max(old, new) < LEAST_SHOWN * max(sum(one.values()), sum(other.values())):
            continue
        yield Row(name, duration(old), duration(new), percent(new / old - 1) if old and new else "")


def slower_loader(loop: str, before: Record, after: Record) -> Iterator[Finding]:
    """The wait for input, which is clocked in each step.

    The other components are charged by profiler windows: what is `unknown` in one run may be `compute` in the other, and
    nothing has changed.
    """
    one, other = (_input_waits(record.part("windows", loop)) for record in (before, after))
    steps = [_step_seconds(record.part("windows", loop)) for record in (before, after)]
    change = shift(one, other)
    if change is None or not all(steps):
        return
    least = LEAST_SHARE * max(statistics.median(values) for values in steps)
    if not change.beyond(least):
        return
    old, new = statistics.median(one), statistics.median(other)
    grew = change.estimate > 0
    words = ("longer", "slower") if grew else ("shorter", "faster")
    yield Finding(
        Cause.INPUT,
        loop,
        Effect.of(grew),
        f"`{loop}` waits {words[0]} for its input: {duration(new)} a step instead of {duration(old)}; "
        f"the loader is {words[1]}, or less of its work is hidden behind the device's",
    )


def relative(change: Change) -> str:
    """`+25 % (+20 % to +29 %)` of a change of logarithms."""
    low, middle, high = (
        f"{100 * (factor(value) - 1):+.3g} %" for value in (change.low, change.estimate, change.high)
    )
    return f"{middle} ({low} to {high})"


def _step_seconds(columns: Columns | Mapping[str, Any]) -> list[float]:
    """Seconds of a step in each stretch, without what comes in few steps."""
    found = []
    apart = [columns.get(f"component/{name}") or [] for name in APART]
    for index, (steps, wall) in enumerate(
        zip(columns.get("steps", ()), columns.get("seconds", ()), strict=False)
    ):
        if not steps or wall is None:
            continue
        own = wall - sum(column[index] or 0.0 for column in apart if index < len(column))
        if own > 0:
            found.append(own / steps)
    return found


def _input_waits(columns: Columns | Mapping[str, Any]) -> list[float]:
    """Seconds a step, of each stretch."""
    pairs = zip(columns.get("steps", ()), columns.get("component/input", ()), strict=False)
    return [spent / steps for steps, spent in pairs if steps and spent is not None]


def component_seconds(columns: Columns | Mapping[str, Any]) -> dict[str, float]:
    """Seconds a step of each component, the mean over the run; empty where no step was counted."""
    steps = sum(count or 0.0 for count in columns.get("steps", ()))
    if not steps:
        return {}
    return {
        name.removeprefix("component/"): sum(value or 0.0 for value in values) / steps
        for name, values in columns.items()
        if name.startswith("component/")
    }
