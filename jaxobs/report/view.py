"""What is known of a run, as page, notebook and terminal show it; nothing here knows of HTML or of a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final

from jaxobs.model.snapshot import Document, longest_loops
from jaxobs.report import tables
from jaxobs.report.history import NO_TREND, SECONDS, Trend
from jaxobs.report.sentence import is_young, sentence, sentence_without_loop, spent_by_part
from jaxobs.report.text_table import first_of
from jaxobs.vocabulary.units import amount, byte_size, duration, rough_percent

MIN_SPAN: Final = 60.0
"""Seconds that a time axis spans at least, so that the first moments of a run do not race across it."""

OVER: Final = 600.0
"""Seconds after which a loop that was left is over: a pretraining is, and what lies between two epochs is shorter."""

MAX_MOMENTS: Final = 120
"""Most moments in a chart over time: more could not be told apart on a screen."""

MAX_MARKS: Final = 60
MAX_NAMES: Final = 3
"""Most moments marked for recompiles, and functions named in each: a storm of them must not make the page large."""

VISIBLE: Final = 0.005
"""Share below which a part is left out: it would round to 0 %, or is less than what step times vary by."""

MAX_RECORDED: Final = 3
"""Values recorded by the user that are shown; the rest is in the snapshot."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A process of this job that serves a page, this one included."""

    name: str
    address: str | None
    """Address of its page; None for this process."""
    row: dict[str, Any] | None = None
    """What it told of itself, for the comparison of ranks; None if it did not."""
    of: str = ""
    """The id of another run of this name, to which it belongs; empty for one of this run."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown: the `document` of a snapshot, the history before it as `trend`, and the job's `ranks`."""

    document: Document
    trend: Trend = NO_TREND
    ranks: tuple[Rank, ...] = ()
    wanted_loop: str | None = None
    """The loop that the reader has chosen. If there is no loop of that name, the one with the most time is shown: of a
    job that goes on, of those that are not over."""
    live: bool = True
    """Whether an agent serves it; else it is a file of its own, which is not made anew and links to nothing."""

    @property
    def loops(self) -> Mapping[str, Document]:
        return self.document.get("loops") or {}

    @property
    def process(self) -> Document:
        return self.document.get("process") or {}

    @property
    def loop(self) -> str | None:
        """The loop that is shown in full; None if none was seen."""
        if self.wanted_loop in self.loops:
            return self.wanted_loop
        names, over = longest_loops(self.document), OVER if self.live else math.inf
        return min(names, key=lambda name: (self.loops[name].get("left_seconds") or 0.0) > over, default=None)

    @property
    def chosen(self) -> Document:
        """The entry of that loop; empty if none was seen."""
        return self.loops[self.loop] if self.loop is not None else {}

    @property
    def span(self) -> float:
        """Seconds that the time axes of this page reach back."""
        return min(SECONDS, max(MIN_SPAN, -self.trend.times[0] if self.trend.times else 0.0))


def run_name(document: Document) -> str:
    """The name of the run, else of the service."""
    process = document.get("process") or {}
    return str(process.get("run") or process.get("service_name") or "JAX")


def facts(document: Document) -> list[str]:
    """What is known of this process: its rank, host, devices, version of JAX, and age."""
    process = document.get("process") or {}
    index, ranks = process.get("process_index"), process.get("process_count")
    kinds = Counter(device.get("kind") for device in document.get("devices") or ())
    known = (
        f"rank {index} of {ranks}" if index is not None and (ranks or 1) > 1 else None,
        process.get("host_name"),
        ", ".join(f"{number} × {kind}" if number > 1 else str(kind) for kind, number in kinds.items()),
        f"JAX {process['jax']}" if process.get("jax") else None,
        f"observed for {duration(process['seconds'])}" if process.get("seconds") is not None else None,
        process.get("ended"),
    )
    return [str(fact) for fact in known if fact]


def answer(view: View) -> str:
    """What a person would answer who was asked how the run is going."""
    if view.loop is not None:
        return sentence(view.document, view.loop)
    if view.process:
        return sentence_without_loop(view.document)
    reason = view.document.get("process_reason") or "the first snapshot is on its way"
    return f"Nothing is known yet: {reason}."


def known_figures(view: View, name: str) -> Iterator[tuple[str, str]]:
    """Title and value of each known figure of a loop, of values recorded by the user, and of goodput."""
    loop = view.loops[name]
    for column in tables.LOOP_FIGURES:
        shown = column.show(loop)
        if shown is not None and not _is_mfu_again(loop, column.key):
            yield column.title, shown
    yield from ((word, amount(value)) for word, value in islice(tables.recorded(loop), MAX_RECORDED))
    if view.process.get("goodput") is not None:
        yield "goodput", rough_percent(view.process["goodput"])


def advice(document: Document) -> Iterator[tuple[str, str, str]]:
    """What to do, the most useful first: why, how, and what that would give back; the last two may be empty."""
    for piece in document.get("advice") or ():
        gain = ""
        if piece.get("saves_ratio") is not None:
            hourly = f", {duration(spent)} an hour" if (spent := piece.get("seconds_per_hour")) else ""
            gain = f"That would give back up to {rough_percent(piece['saves_ratio'])} of the time{hourly}."
        elif piece.get("saves_bytes") is not None:
            gain = f"That would give back up to {byte_size(piece['saves_bytes'])}."
        yield piece["sentence"], str(piece.get("remedy") or ""), gain


def memory_in_words(memory: Document) -> Iterator[str]:
    """What is in use, the most that was, how fast it grows, and when it will be full; the first is always known."""
    in_use, limit = memory["in_use_bytes"], memory.get("limit_bytes")
    of_limit = f" of {byte_size(limit)} ({rough_percent(in_use / limit)})" if limit else ""
    yield byte_size(in_use) + of_limit
    if memory.get("peak_bytes"):
        yield f"at most {byte_size(memory['peak_bytes'])}"
    if memory.get("growth_bytes_per_second"):
        yield f"growing by {byte_size(60 * memory['growth_bytes_per_second'])} a minute"
    if memory.get("forecast_seconds") is not None:
        yield f"full in {duration(memory['forecast_seconds'])}"


def reasons(view: View) -> Iterator[str]:
    """A sentence for each reason of main figures of the chosen loop, or of values that it recorded.

    It is why they are not known or, of known ones, what to know of them.
    """
    loop = view.chosen
    by_reason: dict[tuple[bool, str], list[str]] = {}
    for key, title in (("step_seconds", "step time"), ("mfu", "MFU"), ("hfu", "HFU")):
        is_known = loop.get(key) is not None
        if (reason := loop.get(f"{key}_reason")) and not (is_known and _is_mfu_again(loop, key)):
            by_reason.setdefault((is_known, str(reason)), []).append(title)
    for title, is_known, reason in tables.gone_wrong(loop):
        by_reason.setdefault((is_known, reason), []).append(title)
    absent_first = sorted(by_reason.items(), key=lambda found: found[0][0])
    for (is_known, reason), titles in absent_first:
        names = ", ".join(titles)
        yield f"{names[0].upper()}{names[1:]}: {reason}." if is_known else f"No {names}: {reason}."


def _is_mfu_again(loop: Document, key: str) -> bool:
    """Whether it is the HFU of a loop without rematerialised work, which is not shown beside its MFU."""
    return key == "hfu" and loop.get("hfu") == loop.get("mfu")


def parts_of_a_step(view: View) -> tuple[Mapping[str, float], str]:
    """Mean seconds of a step by component, and over which time in words.

    The time is the last half minute, by the shares that the bottleneck is told by; else, as in a page that is kept, of a
    young loop, or where something was compiled, which step times leave out, all since the loop began.
    """
    shares, each = (view.chosen.get("bottleneck") or {}).get("shares"), view.chosen.get("step_seconds")
    spent = spent_by_part(view.chosen)
    is_old = not is_young(view.chosen)
    if view.live and is_old and shares and each is not None and shares.get("compile", 0.0) < VISIBLE:
        return {part: share * each for part, share in shares.items()}, "over the last half minute"
    turns = view.chosen.get("steps") or 0
    parts = {part: seconds / turns for part, seconds in spent.items()} if turns else {}
    return parts, "since the loop began"


def shares_of(trend: Trend, loop: str) -> tuple[list[float], dict[str, list[float]]]:
    """Edges of stretches (seconds, negative before now), and by component its share of each stretch, 0 to 1.

    A stretch in which no time was charged is merged with the next one.
    """
    columns = trend.below("loops", loop, "components")
    moments = zip(*columns.values(), strict=True)
    known = [index for index, values in enumerate(moments) if all(map(math.isfinite, values))]
    step = max(1, math.ceil(len(known) / MAX_MOMENTS))
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


def recompilations_of(trend: Trend) -> Iterator[tuple[float, str]]:
    """Moments in which functions were recompiled (seconds, negative before now), with a text; the newest ones alone."""
    found: dict[int, list[str]] = {}
    for (kind, function, *_), column in trend.columns.items():
        if kind != "functions" or len(set(column)) == 1:  # most functions, most of the time
            continue
        counts = (0.0 if math.isnan(number) else number for number in column)
        for index, (before, now) in enumerate(pairwise(counts), 1):
            if now > before:
                found.setdefault(index, []).append(function)
    for index in sorted(found)[-MAX_MARKS:]:
        who = first_of(found[index], MAX_NAMES)
        yield trend.times[index], f"{who} compiled again\n{duration(-trend.times[index])} ago"
