"""Compares the step time of a loop in both runs, in all and by component, and tells noise from change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jaxobs.report.comparison.finding import Cause, Effect, Finding, Row, StepTime
from jaxobs.report.comparison.noise import Change, factor, ratio, shift
from jaxobs.report.record import Record
from jaxobs.vocabulary.units import duration, or_absent, percent, signed_percent

APART: Final = ("compile", "checkpoint")
"""Components that occur in few steps. Step time is compared without them."""

LEAST_SHARE: Final = 0.05
"""Share of a step by which the wait for input must change to be a finding. In two runs of one program, one of them on a
busy machine, it differed by 2.5 % (measured), as less of the loader's work was hidden."""

LEAST_SHOWN: Final = 0.005
"""Share of a step below which a component gets no row."""


def step_time(loop: str, before: Record, after: Record) -> StepTime:
    """A loop's step time, without compiles and checkpoints, in both runs, and its change."""
    one, other = (_step_seconds(record.part("windows", loop)) for record in (before, after))
    old, new = (median(values) if values else None for values in (one, other))
    for record, values in ((before, one), (after, other)):
        if not values:
            return StepTime(loop, old, new, None, f"{record.name} has no step of `{loop}` that was timed")
    change = ratio(one, other)
    if change is None:
        few = f"{len(one)} and {len(other)} stretches of a second or more, fewer where neighbours are alike, are too few"
        return StepTime(loop, old, new, None, f"{few} to tell noise from change: let the runs last a minute")
    return StepTime(loop, old, new, change)


def step_row(time: StepTime) -> Row:
    """A row with the step time of both runs, and the change with its interval."""
    old, new = (or_absent(value, duration) for value in (time.before, time.after))
    return Row("step", old, new, "" if time.change is None else relative(time.change), time.verdict)


def component_rows(loop: str, before: Record, after: Record) -> Iterator[Row]:
    """A row for each component with its seconds per step in both runs, the means over the run; the largest first."""
    one, other = (component_seconds(record.part("windows", loop)) for record in (before, after))
    both = {name: (one.get(name, 0.0), other.get(name, 0.0)) for name in sorted(one.keys() | other.keys())}
    for name, (old, new) in sorted(both.items(), key=lambda pair: -max(pair[1])):
        if max(old, new) < LEAST_SHOWN * max(sum(one.values()), sum(other.values())):
            continue
        yield Row(name, duration(old), duration(new), percent(new / old - 1) if old and new else "")


def slower_loader(loop: str, before: Record, after: Record) -> Iterator[Finding]:
    """A finding where the wait for input, which is timed in each step, became longer or shorter.

    Other components rest on profiler windows: a time that is `unknown` in one run may be `compute` in the other
    although nothing has changed.
    """
    one, other = (_input_waits(record.part("windows", loop)) for record in (before, after))
    steps = [_step_seconds(record.part("windows", loop)) for record in (before, after)]
    change = shift(one, other)
    if change is None or not all(steps):
        return
    least = LEAST_SHARE * max(median(values) for values in steps)
    if not change.beyond(least):
        return
    old, new = median(one), median(other)
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
    """A change of logarithms in per cent, such as `+25 % (+20 % to +29 %)`."""
    low, middle, high = (
        signed_percent(factor(value) - 1) for value in (change.low, change.estimate, change.high)
    )
    return f"{middle} ({low} to {high})"


def _step_seconds(columns: Mapping[str, Any]) -> list[float]:
    """Seconds of a step in each stretch, without the components that occur in few steps."""
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


def _input_waits(columns: Mapping[str, Any]) -> list[float]:
    """Seconds per step of waiting for input, in each stretch."""
    pairs = zip(columns.get("steps", ()), columns.get("component/input", ()), strict=False)
    return [spent / steps for steps, spent in pairs if steps and spent is not None]


def component_seconds(columns: Mapping[str, Any]) -> dict[str, float]:
    """Seconds per step of each component, the mean over the run; empty where no step was counted."""
    steps = sum(count or 0.0 for count in columns.get("steps", ()))
    if not steps:
        return {}
    return {
        name.removeprefix("component/"): sum(value or 0.0 for value in values) / steps
        for name, values in columns.items()
        if name.startswith("component/")
    }


def median(values: Sequence[float]) -> float:
    """The median of at least one value. Not by `statistics`: a notebook's own module may have that name."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
