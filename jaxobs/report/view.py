"""What is shown of a run, made once as blocks: how it goes, where a step goes, the roofline, compiles, memory, devices.

Page, notebook and terminal write these; nothing here knows of HTML or of a terminal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final

from jaxobs.model.snapshot import (
    Document,
    all_compile_seconds,
    devices_with_memory,
    fullest,
    longest_loops,
    main_thread_shares,
)
from jaxobs.report import tables
from jaxobs.report.blocks import (
    Advice,
    Block,
    Curve,
    Figures,
    Folded,
    Grid,
    Legend,
    Meters,
    Nearness,
    Reasons,
    Section,
    Sentence,
    SharesOverTime,
    StepBar,
)
from jaxobs.report.history import NO_TREND, SECONDS, Trend
from jaxobs.report.rooflines import points_of, roofs_of, why_incomplete
from jaxobs.report.sentence import Phrase, sentence, why_unknown
from jaxobs.report.tables import Column
from jaxobs.vocabulary.units import amount, byte_size, duration, percent, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

MIN_SPAN: Final = 60.0
"""Seconds that a time axis spans at least, so that the first moments of a run do not race across it."""

RECENT: Final = 30.0
"""Seconds over which the parts of a step are averaged: the window of the bottleneck."""

MAX_MOMENTS: Final = 120
"""Most moments in a chart over time: more could not be told apart on a screen."""

MAX_MARKS: Final = 60
MAX_NAMES: Final = 3
"""Most moments marked for recompiles, and functions named in each: a storm of them must not make the page large."""

VISIBLE: Final = 0.005
"""Share below which a part is left out: it would round to 0 %."""

MAX_ROWS: Final = 40
MAX_AGAIN: Final = 12
MAX_LIVE: Final = 10
MAX_LINES: Final = 6
MAX_MOMENTS_LISTED: Final = 12
MAX_RECORDED: Final = 3
"""How much is shown of long lists; the rest is in the snapshot."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A process of this job that serves a page, this one included."""

    name: str
    address: str | None
    """Address of its page; None for this process."""


@dataclass(frozen=True, slots=True)
class View:
    """What is shown: the `document` of a snapshot, the history before it as `trend`, and the job's `ranks`."""

    document: Document
    trend: Trend = NO_TREND
    ranks: tuple[Rank, ...] = ()
    wanted_loop: str | None = None
    """The loop that the reader has chosen. If there is no loop of that name, the one with the most time is shown."""

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
        return next(iter(longest_loops(self.document)), None)

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
    )
    return [str(fact) for fact in known if fact]


# How it goes


def how_it_goes(view: View) -> Iterator[Section]:
    """The sentence, the main figures, why others are missing, and advice."""
    yield Section("sentence", (answer(view),))
    if view.loop is not None and (known := tuple(known_figures(view, view.loop))):
        yield Section("figures", (Figures(known, large=True),))
    if reasons := why_absent(view):
        yield Section("absent", (Reasons(tuple(reasons)),))
    if pieces := view.document.get("advice"):
        yield Section("advice", (Advice(pieces),), "What to do")


def answer(view: View) -> Sentence:
    """What a person would answer who was asked how the run is going."""
    if view.loop is not None:
        return Sentence(tuple(sentence(view.document, view.loop)), large=True)
    if not view.process:
        reason = view.document.get("process_reason") or "the first snapshot is on its way"
        return Sentence((Phrase(f"Nothing is known yet: {reason}."),), large=True)
    said = (
        "No loop was seen yet: iterate over obs.steps(…), or start the script with `jaxobs run`; compiles, memory and"
        " devices are below."
    )
    return Sentence((Phrase(said),), large=True)


def known_figures(view: View, name: str) -> Iterator[tuple[str, str]]:
    """Title and value of each known figure of a loop, of values recorded by the user, and of goodput."""
    loop = view.loops[name]
    for column in tables.LOOP_FIGURES:
        shown = column.show(loop)
        if shown is not None and not (column.key == "hfu" and loop.get("hfu") == loop.get("mfu")):
            yield column.title, shown
    yield from ((word, amount(value)) for word, value in islice(tables.recorded(loop), MAX_RECORDED))
    if view.process.get("goodput") is not None:
        yield "goodput", rough_percent(view.process["goodput"])


def why_absent(view: View) -> list[str]:
    """A sentence for each reason why main figures of the chosen loop, or values that it recorded, are not known."""
    by_reason: dict[str, list[str]] = {}
    for key, title in (("step_seconds", "step time"), ("mfu", "MFU"), ("hfu", "HFU")):
        reason = view.chosen.get(f"{key}_reason")
        if view.chosen.get(key) is None and reason:
            by_reason.setdefault(str(reason), []).append(title)
    for title, reason in tables.not_finite(view.chosen):
        by_reason.setdefault(reason, []).append(title)
    return [f"No {' and '.join(names)}: {reason}." for reason, names in by_reason.items()]


# Where a step goes


def where_steps_go(view: View) -> Section | None:
    """The parts of a step, which add up to it, and their shares over the last hour; None if no loop was seen."""
    if view.loop is None:
        return None
    title, (parts, since) = "Where a step goes", parts_of_a_step(view)
    whole = sum(parts.values())
    if whole <= 0:
        return Section("steps", (Reasons(("No step has ended yet.",)),), title)
    edges, shares = shares_of(view.trend, view.loop)
    seen = [
        name
        for name in COMPONENTS
        if parts.get(name, 0.0) >= VISIBLE * whole or max(shares.get(name, ()), default=0.0) >= VISIBLE
    ]
    rows = [
        {"name": name, "seconds": parts[name], "share": parts[name] / whole}
        for name in COMPONENTS
        if parts.get(name)
    ]
    blocks: list[Block] = [StepBar(parts)]
    if len(edges) > 1:
        blocks.append(SharesOverTime(edges, shares, view.span, recompilations_of(view.trend)))
    blocks.append(Legend(tuple(seen)))
    blocks.append(Folded("As a table", "steps-table", (Grid(PARTS, rows, title),)))
    if parts.get("unknown", 0.0) >= 0.05 * whole:
        blocks.append(Reasons((f"unknown: {why_unknown(view.chosen)}.",)))
    return Section(
        "steps", tuple(blocks), title, f"{duration(whole)} on average {since}, all its parts together"
    )


PARTS: Final = (
    tables.text("part", "name"),
    tables.figure("a step", "seconds", duration),
    tables.figure("of the time", "share", rough_percent),
)


def parts_of_a_step(view: View) -> tuple[Mapping[str, float], str]:
    """Mean seconds of a step by component, and over which time in words.

    The time is the last half minute if the history reaches that far back, else all since the loop began.
    """
    assert view.loop is not None
    trend, name = view.trend, view.loop
    steps, columns = trend.column("loops", name, "steps"), trend.below("loops", name, "components")
    begin = max((index for index, time in enumerate(trend.times) if time <= -RECENT), default=None)
    if begin is not None and columns and steps[-1] > steps[begin]:
        turns = steps[-1] - steps[begin]
        recent = {part: max(0.0, values[-1] - values[begin]) / turns for part, values in columns.items()}
        if all(map(math.isfinite, recent.values())):
            return recent, f"over the last {duration(-trend.times[begin])}"
    turns = view.chosen.get("steps") or 0
    spent = view.chosen.get("components") or {}
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


def recompilations_of(trend: Trend) -> list[tuple[float, str]]:
    """Moments in which functions were recompiled (seconds, negative before now), with a text; the newest ones alone."""
    found: dict[int, list[str]] = {}
    for (kind, function, *_), column in trend.columns.items():
        if kind != "functions" or len(set(column)) == 1:  # most functions, most of the time
            continue
        counts = (0.0 if math.isnan(number) else number for number in column)
        for index, (before, now) in enumerate(pairwise(counts), 1):
            if now > before:
                found.setdefault(index, []).append(function)
    marks = []
    for index in sorted(found)[-MAX_MARKS:]:
        names, more = found[index][:MAX_NAMES], len(found[index]) - MAX_NAMES
        who = ", ".join(names) + (f" and {more} more" if more > 0 else "")
        marks.append((trend.times[index], f"{who} compiled again\n{duration(-trend.times[index])} ago"))
    return marks


def over_time(view: View) -> Section | None:
    """Rates, MFU and values recorded by the user over time; None if there is nothing to draw yet."""
    if view.loop is None:
        return None
    curves = [curve for curve in _curves(view, view.loop) if sum(map(math.isfinite, curve.values)) >= 2]
    if not curves:
        return None
    times = view.trend.times
    step = max(1, math.ceil(len(times) / MAX_MOMENTS_LISTED))
    rows = [{"index": index} for index in range(len(times) - 1, -1, -step)]
    columns = [Column("seconds ago", lambda row: f"{-times[row['index']]:.0f}"), *map(_listed, curves)]
    table = Folded("As a table", "speed-table", (Grid(columns, rows, "Over time"),))
    return Section("speed", (*curves, table), "Over time")


def _curves(view: View, loop: str) -> Iterator[Curve]:
    trend = view.trend
    written = (
        ("steps_per_second", "steps/s", amount),
        ("tokens_per_second", "tokens/s", amount),
        ("mfu", "MFU", percent),
    )
    for key, name, write in written:
        yield Curve(name, trend.times, trend.column("loops", loop, key), view.span, write)
    for name, values in trend.below("loops", loop, "recorded").items():
        yield Curve(name, trend.times, values, view.span, amount, from_zero=False)


def _listed(curve: Curve) -> Column:
    values, write = curve.values, curve.write
    return Column(
        curve.name, lambda row: write(values[row["index"]]) if math.isfinite(values[row["index"]]) else None
    )


# The roofline, compiles, host lines, memory, devices, cost


def nearness(view: View) -> Section | None:
    """Executables and operations below their roofs; None if none is known."""
    executables, operations = view.document.get("executables") or [], view.document.get("operations") or []
    if not executables and not operations:
        return None
    points = points_of(view.document)
    blocks: list[Block] = []
    if points:
        blocks.append(Nearness(roofs_of(view.document), points))
        blocks.append(Legend(tuple(dict.fromkeys(point.bottleneck for point in points))))
    blocks.append(Reasons(tuple(why_incomplete(view.document, points))))
    for title, columns, rows in (
        ("Executables", tables.EXECUTABLES, executables),
        ("Operations", tables.OPERATIONS, operations),
    ):
        left = len(rows) - MAX_ROWS
        more = f"{left} smaller ones are in the snapshot." if left > 0 else ""
        grid = Grid(columns, rows[:MAX_ROWS], title, more)
        blocks += [Folded(f"{title} ({len(rows)})", f"{title.lower()}-table", (grid,))] if rows else []
    return Section(
        "roofline", tuple(blocks), "Roofline", "how near to what the device can do" if points else ""
    )


def compilations(view: View) -> Section | None:
    """What was compiled again and why, the newest compiles, and the functions; None if nothing was compiled."""
    rows = tables.functions(view.document)
    if not rows:
        return None
    again, recent = tables.recompilations(rows), tables.newest(view.document)
    left = len(again) - MAX_AGAIN
    more = f"{left} cheaper ones are in the snapshot." if left > 0 else ""
    number, left_out = (
        sum(row.get("compilations") or 0 for row in rows),
        view.document.get("functions_left_out") or 0,
    )
    title = "Compiled again" if again else "Compiled"
    first: Block = Sentence((Phrase("Nothing was compiled twice."),))
    blocks = (
        Grid(tables.AGAIN, again[:MAX_AGAIN], title, more) if again else first,
        Folded(
            "Newest compiles", "newest-table", (Grid(tables.NEWEST, recent, "Newest compiles, seconds ago"),)
        ),
        Folded(
            f"Functions ({len(rows) + left_out})",
            "functions-table",
            (Grid(tables.FUNCTIONS, rows[:MAX_ROWS], "Compiled functions"),),
        ),
    )
    note = f"{'at least ' if left_out else ''}{number} compiles took {duration(all_compile_seconds(view.document))}"
    return Section("compiles", blocks, title, note)


def host_lines(view: View) -> Section | None:
    """The lines that the main thread is at while it does not wait for the device; None if none is known."""
    whose = view.chosen or view.process
    shares, idle = main_thread_shares(whose)[:MAX_LINES], whose.get("device_idle")
    note = f"the device is idle {rough_percent(idle)} of the time" if idle is not None else ""
    return Section("host", (Meters(tuple(shares)),), "Lines the host is at", note) if shares else None


def memory(view: View) -> Section | None:
    """The memory of the fullest device, else of the process; None if neither is known."""
    devices = devices_with_memory(view.document)
    device = fullest(devices) if devices else {}
    name = f"device {device.get('device')}" if devices else "process"
    found = device.get("memory") or view.process.get("memory") or {}
    if found.get("in_use_bytes") is None:
        return None
    unit = 2.0 ** (
        10 * int(math.log2(max(found["in_use_bytes"], 1.0)) // 10)
    )  # the largest of B, KiB, … below it
    blocks: list[Block] = [
        Sentence(tuple(_memory_in_words(name, found))),
        Curve(
            f"memory of {name}", view.trend.times, view.trend.column("memory", name), view.span, byte_size,
            limit=found.get("limit_bytes"), tick_unit=unit, titled=False,
        ),
    ]  # fmt: skip
    if found.get("forecast_seconds") is None and found.get("forecast_seconds_reason"):
        blocks.append(Reasons((f"No forecast: {found['forecast_seconds_reason']}.",)))
    if len(devices) > 1:
        rows = [{"name": f"device {each.get('device')}", **each["memory"]} for each in devices]
        grid = Grid(tables.MEMORY, rows, "Memory of devices")
        blocks.append(Folded(f"Devices ({len(devices)})", "memory-devices", (grid,)))
    live = view.process.get("live_arrays") or {}
    by_line = Grid(
        tables.LIVE_LINES, (live.get("lines") or [])[:MAX_LIVE], "Live arrays by the line that made them"
    )
    by_shape = Grid(tables.LIVE_SHAPES, (live.get("groups") or [])[:MAX_LIVE], "Live arrays by shape")
    blocks.append(Folded("What holds it", "memory-holders", (by_line, by_shape)))
    return Section("memory", tuple(blocks), "Memory")


def _memory_in_words(name: str, found: Document) -> Iterator[Phrase]:
    yield Phrase(f"The {name} uses ")
    yield Phrase(byte_size(found["in_use_bytes"]), strong=True)
    if found.get("limit_bytes"):
        share = found["in_use_bytes"] / found["limit_bytes"]
        yield Phrase(f" of {byte_size(found['limit_bytes'])} ({rough_percent(share)})")
    yield Phrase(f", at most {byte_size(found['peak_bytes'])} so far." if found.get("peak_bytes") else ".")
    seconds = found.get("forecast_seconds")
    if seconds is not None and math.isfinite(seconds):
        yield Phrase(" ")
        yield Phrase(f"It grows, and reaches the limit in {duration(seconds)} if that goes on.", strong=True)


def devices(view: View) -> Section | None:
    """The devices' peaks with their provenance, their clocks, and what throttles them; None without devices."""
    found = view.document.get("devices") or []
    if not found:
        return None
    peaks = (f"Peaks: {each['peaks_reason']}." for each in found if each.get("peaks_reason"))
    clocks = (
        f"Clocks: {each['clocks_reason']}."
        for each in found
        if each.get("clocks") is None and each.get("clocks_reason")
    )
    grid = Grid(tables.DEVICES, tables.alike_devices(found), "Devices")
    return Section("devices", (grid, Reasons((*peaks, *clocks))), "Devices")


def own_cost(view: View) -> Section | None:
    """CPU time, memory and lost events of jaxobs itself, and the sources that do not work."""
    agent, age = view.document.get("agent") or {}, view.process.get("seconds") or 0.0
    if not agent:
        return None
    cpu = agent.get("cpu_seconds") or {}
    facts = [
        (title, f"{percent(cpu[key] / age)} of a core")
        for key, title in (("probe", "in the job"), ("agent", "beside it"))
        if cpu.get(key) is not None and age
    ]
    if agent.get("resident_bytes") is not None:
        facts.append(("memory", byte_size(agent["resident_bytes"])))
    for key, title in (("accepted", "events"), ("dropped", "events dropped"), ("refused", "events refused")):
        number = agent.get(f"events_{key}")
        facts += [(title, f"{number:,}")] if number or (key == "accepted" and number is not None) else []
    sources = view.document.get("sources") or {}
    refused = [f"Refused: {reason}." for reason in agent.get("refused_reasons") or ()]
    failed = [
        f"{name} failed: {each.get('reason')}." for name, each in sources.items() if each.get("up") is False
    ]
    grid = Grid(tables.SOURCES, [{"name": name, **each} for name, each in sources.items()], "Sources")
    listed = Folded(f"Sources ({len(sources)})", "sources-table", (grid,))
    return Section("cost", (Figures(tuple(facts)), Reasons((*refused, *failed)), listed), "What jaxobs costs")


_EVERY: Final[tuple[Callable[[View], Section | None], ...]] = (
    where_steps_go, over_time, nearness, compilations, host_lines, memory, devices, own_cost,
)  # fmt: skip


def sections(view: View) -> Iterator[Section]:
    """Everything that is shown of a run, in the order in which it is read."""
    yield from how_it_goes(view)
    yield from filter(None, (section(view) for section in _EVERY))
