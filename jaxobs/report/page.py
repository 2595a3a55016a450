"""The live page, one HTML document: what is known of a run as cards, with the page's style and its script."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Final
from urllib.parse import quote

from jaxobs.model.snapshot import (
    Document,
    all_compile_seconds,
    devices_with_memory,
    fullest,
    longest_loops,
    main_thread_shares,
)
from jaxobs.report import flame_graph, tables
from jaxobs.report.charts import Curve, line_chart, shares_bar, shares_over_time
from jaxobs.report.compile_explained import long_compiles
from jaxobs.report.markup import (
    Element,
    card,
    folded,
    legend,
    pairs,
    policy_of,
    quiet,
    table,
    tag,
    whole_page,
    with_code,
)
from jaxobs.report.peak_memory import memory_peaks
from jaxobs.report.ranks import dearest
from jaxobs.report.roofline_chart import roofline
from jaxobs.report.rooflines import points_of, roofs_of, why_incomplete
from jaxobs.report.sentence import DOING, hang_sentence, slowdown_sentence, why_unknown
from jaxobs.report.tables import Column, Row
from jaxobs.report.view import (
    VISIBLE,
    Rank,
    View,
    advice,
    answer,
    facts,
    known_figures,
    memory_in_words,
    parts_of_a_step,
    reasons,
    recompilations_of,
    run_name,
    shares_of,
)
from jaxobs.vocabulary.units import amount, byte_size, count, duration, percent, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

MAX_ROWS: Final = 40
MAX_AGAIN: Final = 12
MAX_LIVE: Final = 10
MAX_LINES: Final = 6
MAX_MOMENTS_LISTED: Final = 12
"""How much is shown of long lists; the rest is in the snapshot."""


def page(view: View) -> str:
    """The HTML document."""
    title = f"{run_name(view.document)} · jaxobs"
    main = tag("main", _header(view), *_sections(view))
    return whole_page(title, main, _footer(), script=_script()) if view.live else whole_page(title, main)


def _sections(view: View) -> Iterator[Element | None]:
    """All that is shown of a run, in the order in which it is read."""
    yield from how_it_goes(view)
    sections = (
        _hangs, _slowdowns, where_steps_go, _over_time, nearness, where_device_time_goes, compilations, _host_lines,
        memory, _devices, memory_peaks, _own_cost,
    )  # fmt: skip
    yield from (section(view) for section in sections)


def how_it_goes(view: View) -> Iterator[Element | None]:
    """The sentence, the main figures, why others are missing or what to know of these, and advice."""
    yield tag("p", *with_code(answer(view)), class_="sentence", id="sentence")
    if view.loop is not None and (known := list(known_figures(view, view.loop))):
        yield pairs(known, class_="figures", id="figures")
    yield quiet(*reasons(view))
    yield what_to_do(view.document)


def what_to_do(document: Document) -> Element | None:
    """The advice, with what each piece would give back; None if there is none."""
    pieces = []
    for why, how, gain in advice(document):
        saves = tag("span", *with_code(f" {gain}"), class_="saves")
        pieces.append(tag("li", tag("strong", *with_code(why)), " ", *with_code(how), saves))
    return card("What to do", tag("ol", *pieces, class_="advice"), name="advice") if pieces else None


def _hangs(view: View) -> Element | None:
    """When a loop stood still, the newest first, and where the threads were then; None if none did."""
    hangs = list(reversed(view.document.get("hangs") or []))
    parts: list[Element | None] = []
    for number, hang in enumerate(hangs):
        parts.append(tag("p", *with_code(hang_sentence(hang))))
        stacks = []
        for thread in hang.get("threads") or ():
            stacks += [tag("p", str(thread["name"])), tag("pre", "\n".join(thread["frames"]))]
        parts.append(folded(f"Threads ({len(stacks) // 2})", *stacks, name=f"hang-{number}"))
    return card("It stood still", *parts, name="hangs") if hangs else None


_OF_A_SLOWDOWN: Final = (
    tables.text("its thread is", "what"),
    tables.figure("of a step before", "before", duration),
    tables.figure("since", "after", duration),
)


def _slowdowns(view: View) -> Element | None:
    """When a loop became slower for good, the newest first, and what its thread did in a step before and since."""
    parts: list[Element | None] = []
    for slowdown in reversed(view.document.get("slowdowns") or []):
        parts.append(tag("p", *with_code(slowdown_sentence(slowdown))))
        rows = [{"what": DOING.get(name, name), **each} for name, each in slowdown["parts"].items()]
        parts.append(table(_OF_A_SLOWDOWN, rows, caption="A step before and since"))
    return card("It became slower", *parts, name="slowdowns") if parts else None


def where_steps_go(view: View) -> Element | None:
    """The parts of a step, which add up to it, and their shares over the last hour; None if no loop was seen."""
    if view.loop is None:
        return None
    title, (parts, since) = "Where a step goes", parts_of_a_step(view)
    whole = sum(parts.values())
    if whole <= 0:
        return card(title, quiet("No step has been seen to end."), name="steps")
    edges, shares = shares_of(view.trend, view.loop)
    of_all = {name: parts.get(name, 0.0) / whole for name in COMPONENTS}
    seen = [name for name, share in of_all.items() if max([share, *shares.get(name, ())]) >= VISIBLE]
    rows = [{"name": name, "seconds": parts[name], "share": share} for name, share in of_all.items() if share]
    return card(
        title,
        shares_bar(parts),
        shares_over_time(edges, shares, view.span, recompilations_of(view.trend)),
        legend(seen),
        folded("As a table", table(tables.PARTS, rows, caption=title), name="steps-table"),
        quiet(f"unknown: {why_unknown(view.chosen)}.") if of_all["unknown"] >= 0.05 else None,
        name="steps",
        note=f"{duration(whole)} on average {since}, all its parts together",
    )


def _over_time(view: View) -> Element | None:
    """Rates, MFU and values recorded by the user over time; None if there is nothing to draw yet."""
    if view.loop is None:
        return None
    curves = [curve for curve in _curves(view, view.loop) if sum(map(math.isfinite, curve.values)) >= 2]
    if not curves:
        return None
    drawn = []
    for curve in curves:
        is_last = curve is curves[-1]
        chart = line_chart(curve, height=100 if is_last else 82, with_times=is_last)
        drawn.append(tag("figure", tag("figcaption", curve.name), chart))
    times = view.trend.times
    step = max(1, math.ceil(len(times) / MAX_MOMENTS_LISTED))
    rows = [{"index": index} for index in range(len(times) - 1, -1, -step)]
    columns = [Column("seconds ago", lambda row: f"{abs(times[row['index']]):.0f}"), *map(_listed, curves)]
    listed = folded("As a table", table(columns, rows, caption="Over time"), name="speed-table")
    return card("Over time", *drawn, listed, name="speed")


def _curves(view: View, loop: str) -> Iterator[Curve]:
    trend = view.trend
    for key, name, write in (
        ("steps_per_second", "steps/s", amount),
        ("tokens_per_second", "tokens/s", amount),
        ("mfu", "MFU", percent),
    ):
        yield Curve(name, trend.times, trend.column("loops", loop, key), view.span, write)
    for name, values in trend.below("loops", loop, "recorded").items():
        yield Curve(name, trend.times, values, view.span, amount, from_zero=False)


def _listed(curve: Curve) -> Column:
    def show(row: Row) -> str | None:
        value = curve.values[row["index"]]
        return curve.write(value) if math.isfinite(value) else None

    return Column(curve.name, show)


def nearness(view: View) -> Element | None:
    """Executables and operations below their roofs; None if none is known."""
    listed = (
        ("Executables", tables.EXECUTABLES, view.document.get("executables") or []),
        ("Operations", tables.OPERATIONS, view.document.get("operations") or []),
    )
    if not any(rows for *_, rows in listed):
        return None
    points, drawn = points_of(view.document), []
    if points:
        colours = dict.fromkeys(point.bottleneck for point in points)
        drawn = [roofline(roofs_of(view.document), points), legend(colours)]
    found = []
    for title, columns, rows in listed:
        shown = table(columns, rows, caption=title, most=MAX_ROWS)
        found.append(folded(f"{title} ({len(rows)})", shown, name=f"{title.lower()}-table"))
    why = quiet(*why_incomplete(view.document, points))
    note = "how near to what the device can do" if points else ""
    return card("Roofline", *drawn, why, *found, name="roofline", note=note)


def where_device_time_goes(view: View) -> Element | None:
    """Device time by the lines of the program; None before the first profiler window."""
    found = view.document.get("device_time")
    if not found or not found["by_line"]:
        return None
    shown = flame_graph.sections(found)
    return card("Device time by line", *shown, name="lines", note="in profiler windows")


def compilations(view: View) -> Element | None:
    """What was compiled again and why, and the functions; None if nothing was compiled."""
    rows = tables.functions(view.document)
    if not rows:
        return None
    again = tables.recompilations(rows)
    number = sum(row.get("compilations") or 0 for row in rows)
    left_out = view.document.get("functions_left_out") or 0
    title = "Compiled again" if again else "Compiled"
    nothing = tag("p", "Nothing was compiled twice.")
    parts = [table(tables.AGAIN, again, caption=title, most=MAX_AGAIN) or nothing]
    for why, todo in long_compiles(view.document):
        advised = tag("ol", *(tag("li", *with_code(piece)) for piece in todo), class_="advice")
        parts += [tag("p", *with_code(why)), advised]
    functions = table(tables.FUNCTIONS, rows, caption="Compiled functions", most=MAX_ROWS)
    took = f"{count(number, 'compile')} took {duration(all_compile_seconds(view.document))}" if number else ""
    return card(
        title,
        *parts,
        folded(f"Functions ({len(rows) + left_out})", functions, name="functions-table"),
        name="compiles",
        note=f"at least {took}" if left_out and took else took,
    )


def _host_lines(view: View) -> Element | None:
    """The lines that the main thread is at while it does not wait for the device; None if none is known."""
    whose = view.chosen or view.process
    shares, idle = main_thread_shares(whose)[:MAX_LINES], whose.get("device_idle")
    if not shares:
        return None
    meters = []
    for line, share in shares:
        full = tag("rect", width=f"{min(100.0, 100 * share):.1f}%", height="4", rx="2", class_="meter-full")
        whole = tag("rect", width="100%", height="4", rx="2", class_="meter")
        meter = tag("svg", whole, full, width="100%", height="4", aria_hidden="true")
        named = tag("span", line, class_="line"), tag("span", rough_percent(share), class_="share")
        meters.append(tag("li", *named, meter))
    note = f"the device is idle {rough_percent(idle)} of the time" if idle is not None else ""
    graph = flame_graph.of_host(whose.get("host_calls") or ())
    return card("Lines the host is at", tag("ol", *meters, class_="meters"), *graph, name="host", note=note)


def memory(view: View) -> Element | None:
    """The memory of the fullest device, else of the process; None if neither is known."""
    devices = devices_with_memory(view.document)
    device = fullest(devices) if devices else {}
    name = f"device {device.get('device')}" if devices else "process"
    whose = name.capitalize() if devices else "The process"
    found = device.get("memory") or view.process.get("memory") or {}
    if found.get("in_use_bytes") is None:
        return None
    unit = 1024.0 ** (int(math.log2(max(found["in_use_bytes"], 1.0))) // 10)  # the largest of B, KiB, …
    curve = Curve(
        f"memory of {name}", view.trend.times, view.trend.column("memory", name), view.span, byte_size,
        limit=found.get("limit_bytes"), tick_unit=unit,
    )  # fmt: skip
    in_use, *rest = memory_in_words(found)
    why_no_forecast = found.get("forecast_seconds") is None and found.get("forecast_seconds_reason")
    rows = [{"name": f"device {each.get('device')}", **each["memory"]} for each in devices]
    by_device = table(tables.MEMORY, rows, caption="Memory of devices")
    live = view.process.get("live_arrays") or {}
    lines, groups = ((live.get(key) or [])[:MAX_LIVE] for key in ("lines", "groups"))
    by_line = table(tables.LIVE_LINES, lines, caption="Live arrays by the line that made them")
    by_shape = table(tables.LIVE_SHAPES, groups, caption="Live arrays by shape")
    return card(
        "Memory",
        tag("p", f"{whose} uses ", tag("b", in_use), *(f", {more}" for more in rest), "."),
        line_chart(curve, height=130),
        quiet(f"No forecast: {why_no_forecast}.") if why_no_forecast else None,
        folded(f"Devices ({len(devices)})", by_device, name="memory-devices") if len(devices) > 1 else None,
        folded("What holds it", by_line, by_shape, name="memory-holders"),
        name="memory",
    )


def _devices(view: View) -> Element | None:
    """The devices' peaks with their provenance, their clocks, and what throttles them; None without devices."""
    found = view.document.get("devices") or []
    if not found:
        return None
    peaks = (f"Peaks: {each['peaks_reason']}." for each in found if each.get("peaks_reason"))
    clocks = (f"Clocks: {each['clocks_reason']}." for each in found if each.get("clocks_reason"))
    shown = table(tables.DEVICES, tables.alike_devices(found), caption="Devices")
    return card("Devices", shown, quiet(*peaks, *clocks), name="devices")


def _own_cost(view: View) -> Element | None:
    """CPU time, memory and lost events of jaxobs itself, and the sources that do not work."""
    agent, age = view.document.get("agent") or {}, view.process.get("seconds") or 0.0
    if not agent:
        return None
    cpu = agent.get("cpu_seconds") or {}
    of_agent = age - (view.process.get("counts_begin_seconds") or 0.0)  # where one before it was lost
    known = []
    for key, title, seconds in (("probe", "in the job", age), ("agent", "beside it", of_agent)):
        if cpu.get(key) is not None and seconds > 0:
            known.append((title, f"{percent(cpu[key] / seconds)} of a core"))
    if agent.get("resident_bytes") is not None:
        known.append(("memory", byte_size(agent["resident_bytes"])))
    counts = {"events": agent.get("events_accepted")}
    counts |= {f"events {word}": agent.get(f"events_{word}") or None for word in ("dropped", "refused")}
    known += [(title, f"{number:,}") for title, number in counts.items() if number is not None]
    sources = view.document.get("sources") or {}
    refused = (f"Refused: {reason}." for reason in agent.get("refused_reasons") or ())
    rows = [{"name": name, **each} for name, each in sources.items()]
    failed = (f"{row['name']} failed: {row.get('reason')}." for row in rows if row.get("up") is False)
    listed = table(tables.SOURCES, rows, caption="Sources")
    return card(
        "What jaxobs costs",
        pairs(known, class_="facts"),
        quiet(*refused, *failed),
        folded(f"Sources ({len(sources)})", listed, name="sources-table"),
        name="cost",
    )


def _header(view: View) -> Element:
    """The name of the run, facts on its process, and links to the other ranks and loops."""
    ranks, loops = [], []
    own = [rank for rank in view.ranks if not rank.of]
    for rank in view.ranks:
        here = {"href": "#top", "aria_current": "page"}
        link = {"href": rank.address, "rel": "noreferrer"} if rank.address else here
        ranks.append(tag("a", f"{rank.name} of {rank.of}" if rank.of else rank.name, **link))
    for loop in longest_loops(view.document):
        to = f"?loop={quote(loop, safe='', errors='replace')}"
        loops.append(tag("a", loop, href=to, aria_current="true" if loop == view.loop else None))
    return tag(
        "header",
        tag("h1", run_name(view.document)),
        tag("p", " · ".join(facts(view.document)), class_="facts"),
        tag("p", id="state", class_="quiet", role="status"),
        tag("nav", *ranks, aria_label="Ranks") if len(ranks) > 1 else None,
        _compared(own) if len(own) > 1 else None,
        tag("nav", *loops, aria_label="Loops") if view.live and len(loops) > 1 else None,
        id="top",
    )


def _compared(ranks: Sequence[Rank]) -> Element | None:
    """Which rank hangs or lags."""
    rows = [dict(rank.row) for rank in ranks if rank.row is not None]
    if len(rows) < 2:
        return quiet("Which one lags: `jaxobs top`")
    worst, others = dearest(rows), max(row["ranks"] or 0 for row in rows) - len(rows)
    said = f"{worst or 'None of these is known to lag'}."
    if others > 0:
        said += f" Not compared: {count(others, 'rank')} on other hosts, or gone. `jaxobs top` compares all hosts."
    return tag("p", *with_code(said), class_="rank") if worst else quiet(said)


def _footer() -> Element:
    links = (tag("a", "metrics", href="metrics"), " · ", tag("a", "snapshot", href="snapshot"))
    made = " · made by jaxobs in the agent beside the job; looking costs the job nothing"
    return tag("footer", tag("p", *links, made))


@cache
def _script() -> str:
    return (files("jaxobs.report") / "page.js").read_text(encoding="utf-8")


def policy() -> str:
    """The Content-Security-Policy of the live page."""
    return policy_of(_script())
