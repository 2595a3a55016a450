"""The section on where a step's time goes: its parts, which add up to it, and their shares over the last hour."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from jaxobs.model.snapshot import Document
from jaxobs.report.columns import Column
from jaxobs.report.drawing import Element, legend, shares_bar, shares_over_time
from jaxobs.report.page.history import Trend
from jaxobs.report.page.parts import card, folded, quiet, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import duration, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

_RECENT: Final = 30.0
"""Seconds over which the parts of a step are averaged: the window of the bottleneck."""

_MOMENTS: Final = 120
"""Most stretches drawn: more could not be told apart on a screen."""

_MARKS: Final = 60
_NAMES: Final = 3
"""Most moments marked for recompiles, and functions named in each: a storm of them must not make the page large."""

_SEEN: Final = 0.005
"""Share below which a part is left out: it would round to 0 %."""


def where_steps_go(view: View) -> Element | None:
    """The section; None where no loop was seen."""
    if view.loop is None:
        return None
    parts, since = parts_of_a_step(view)
    bar = shares_bar(parts)
    if bar is None:
        return card("Where a step goes", quiet("No step has ended yet."), name="steps")
    step_seconds = sum(parts.values())
    edges, shares = shares_of(view.trend, view.loop)
    over_time = shares_over_time(edges, shares, view.span, recompilations_of(view.trend))
    names = [
        name
        for name in COMPONENTS
        if parts.get(name, 0.0) >= _SEEN * step_seconds or max(shares.get(name, ()), default=0.0) >= _SEEN
    ]
    rows = [
        {"name": name, "seconds": parts[name], "share": parts[name] / step_seconds}
        for name in COMPONENTS
        if parts.get(name)
    ]
    columns = (
        Column("part", lambda row: row["name"], text=True),
        Column("a step", lambda row: duration(row["seconds"])),
        Column("of the time", lambda row: rough_percent(row["share"])),
    )
    return card(
        "Where a step goes",
        bar,
        over_time,
        legend(names),
        folded("As a table", table(columns, rows, caption="Where a step goes"), name="steps-table"),
        _why_unknown(view.loops[view.loop], parts.get("unknown", 0.0) / step_seconds),
        name="steps",
        note=f"{duration(step_seconds)} on average {since}, all its parts together",
    )


def parts_of_a_step(view: View) -> tuple[Mapping[str, float], str]:
    """Mean seconds of a step by component, and over which time in words.

    The time is the last half minute where the history reaches that far back, else all since the loop began.
    """
    assert view.loop is not None
    trend, name = view.trend, view.loop
    steps, columns = trend.column("loops", name, "steps"), trend.below("loops", name, "components")
    begin = max((index for index, time in enumerate(trend.times) if time <= -_RECENT), default=None)
    if begin is not None and columns and steps[-1] > steps[begin]:
        turns = steps[-1] - steps[begin]
        recent = {part: max(0.0, values[-1] - values[begin]) / turns for part, values in columns.items()}
        if all(map(math.isfinite, recent.values())):
            return recent, f"over the last {duration(-trend.times[begin])}"
    loop = view.loops[name]
    turns = loop.get("steps") or 0
    spent = loop.get("components") or {}
    parts = {part: seconds / turns for part, seconds in spent.items()} if turns else {}
    return parts, "since the loop began"


def shares_of(trend: Trend, loop: str) -> tuple[list[float], dict[str, list[float]]]:
    """Edges of stretches (seconds, negative before now), and by component its share of each stretch, 0 to 1.

    A stretch in which no time was charged is merged with the next one.
    """
    columns = trend.below("loops", loop, "components")
    moments = zip(*columns.values(), strict=True)
    known = [index for index, values in enumerate(moments) if all(map(math.isfinite, values))]
    step = max(1, math.ceil(len(known) / _MOMENTS))
    chosen = known[::-1][::step][::-1]
    edges = [trend.times[index] for index in chosen[:1]]
    shares: dict[str, list[float]] = {name: [] for name in columns}
    before = chosen[0] if chosen else 0
    for index in chosen[1:]:
        spent = {name: max(0.0, values[index] - values[before]) for name, values in columns.items()}
        whole = sum(spent.values())
        if whole > 0:
            edges.append(trend.times[index])
            for name, seconds in spent.items():
                shares[name].append(seconds / whole)
            before = index
    return edges, shares


def recompilations_of(trend: Trend) -> list[tuple[float, str]]:
    """Moments in which functions were recompiled (seconds, negative before now), with a text; the newest ones alone."""
    found: dict[int, list[str]] = {}
    for (kind, function, *_), column in trend.columns.items():
        if kind != "functions" or len(set(column)) == 1:  # most functions, most of the time
            continue
        counts = (0.0 if math.isnan(count) else count for count in column)
        for index, (before, now) in enumerate(pairwise(counts), 1):
            if now > before:
                found.setdefault(index, []).append(function)
    marks = []
    for index in sorted(found)[-_MARKS:]:
        names, more = found[index][:_NAMES], len(found[index]) - _NAMES
        who = ", ".join(names) + (f" and {more} more" if more > 0 else "")
        marks.append((trend.times[index], f"{who} compiled again\n{duration(-trend.times[index])} ago"))
    return marks


def _why_unknown(loop: Document, share: float) -> Element | None:
    if share < 0.05:
        return None
    reason = (
        (loop.get("bottleneck") or {}).get("reason") or loop.get("mfu_reason") or loop.get("profile_reason")
    )
    return quiet(f"unknown: {reason}." if reason else None)
