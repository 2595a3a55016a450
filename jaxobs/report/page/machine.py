"""Sections on the main thread's lines, the devices, and what jaxobs itself costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jaxobs.model.snapshot import Document, main_thread_shares
from jaxobs.report.columns import Column, Row
from jaxobs.report.drawing import Element, tag
from jaxobs.report.page.parts import card, folded, pairs, quiet, table
from jaxobs.report.page.view import View
from jaxobs.vocabulary.units import amount, byte_size, percent, rough_percent

_LINES: Final = 6


def host_lines(view: View) -> Element | None:
    """The lines that the main thread is at while it does not wait for the device; None where none is known."""
    whose = view.loops[view.loop] if view.loop is not None else view.document.get("process") or {}
    idle = whose.get("device_idle")
    items = [
        tag(
            "li",
            tag("span", line, class_="line"),
            tag("span", rough_percent(share), class_="share"),
            _meter(share),
        )
        for line, share in main_thread_shares(whose)[:_LINES]
    ]
    if not items:
        return None
    return card(
        "Lines the host is at",
        tag("ol", *items, class_="meters"),
        name="host",
        note=f"the device is idle {rough_percent(idle)} of the time" if idle is not None else "",
    )


def devices(view: View) -> Element | None:
    """The devices' peaks with their provenance, their clocks, and what throttles them; None without devices."""
    found = view.document.get("devices") or []
    if not found:
        return None
    shown = table(_DEVICES, _alike(found), caption="Devices")
    return card("Devices", shown, quiet(*_reasons(found)), name="devices")


def own_cost(view: View) -> Element | None:
    """CPU time, memory and lost events of jaxobs itself, and the sources that do not work."""
    agent = view.document.get("agent") or {}
    if not agent:
        return None
    age = (view.document.get("process") or {}).get("seconds") or 0.0
    cpu = agent.get("cpu_seconds") or {}
    facts = [
        (title, f"{percent(cpu[key] / age)} of a core")
        for key, title in (("probe", "in the job"), ("agent", "beside it"))
        if cpu.get(key) is not None and age
    ]
    if agent.get("resident_bytes") is not None:
        facts.append(("memory", byte_size(agent["resident_bytes"])))
    if agent.get("events_accepted") is not None:
        facts.append(("events", f"{agent['events_accepted']:,}"))
    facts += [
        (f"events {word}", f"{lost:,}")
        for word in ("dropped", "refused")
        if (lost := agent.get(f"events_{word}"))
    ]
    sources = view.document.get("sources") or {}
    failed = [
        f"{name} failed: {source.get('reason')}."
        for name, source in sources.items()
        if source.get("up") is False
    ]
    rows = [{"name": name, **source} for name, source in sources.items()]
    return card(
        "What jaxobs costs",
        pairs(facts, class_="facts"),
        quiet(*(f"Refused: {reason}." for reason in agent.get("refused_reasons") or ()), *failed),
        folded(f"Sources ({len(rows)})", table(_SOURCES, rows, caption="Sources"), name="sources-table"),
        name="cost",
    )


def _meter(share: float) -> Element:
    return tag(
        "svg", tag("rect", width="100%", height="4", rx="2", class_="meter"),
        tag("rect", width=f"{min(100.0, 100 * share):.1f}%", height="4", rx="2", class_="meter-full"),
        width="100%", height="4", aria_hidden="true",
    )  # fmt: skip


def _alike(found: list[Row]) -> list[dict[str, Any]]:
    """A row for each group of devices that differ in nothing but their number."""
    rows: dict[str, dict[str, Any]] = {}
    for device in found:
        clocks = device.get("clocks") or {}
        key = f"{device.get('kind')} {clocks.get('throttle_reasons')} {clocks.get('clock_ratio')}"
        row = rows.setdefault(key, {**device, "clocks": clocks, "numbers": []})
        row["numbers"].append(str(device.get("device")))
    return list(rows.values())


def _peaks(row: Row) -> Element | None:
    """The peaks of memory and of the element types that were seen; the other peaks are in the snapshot."""
    peaks = row.get("peaks") or {}
    matrix = peaks.get("matrix") or {}
    seen = [roof["dtype"] for roof in row.get("roofs") or () if roof["dtype"] in matrix] or list(matrix)
    found = [(dtype, matrix[dtype], "FLOP/s") for dtype in seen]
    found += [("memory", peaks["memory"], "B/s")] if peaks.get("memory") else []
    items = [
        tag("li", f"{name} {amount(peak['value'], unit)}", tag("small", f" {peak['provenance']}"))
        for name, peak, unit in found
    ]
    return tag("ul", *items, class_="plain") if items else None


def _clocks(row: Row) -> str | None:
    clocks: Document = row.get("clocks") or {}
    parts = [
        f"{words} {rough_percent(clocks[key])}"
        for words, key in (("utilisation", "utilization_ratio"), ("clock at", "clock_ratio"))
        if clocks.get(key) is not None
    ]
    parts += (
        [f"held down by {', '.join(clocks['throttle_reasons'])}"] if clocks.get("throttle_reasons") else []
    )
    return ", ".join(parts) or None


def _reasons(found: list[Row]) -> Iterator[str]:
    for device in found:
        if device.get("peaks_reason"):
            yield f"Peaks: {device['peaks_reason']}."
        if device.get("clocks") is None and device.get("clocks_reason"):
            yield f"Clocks: {device['clocks_reason']}."


_DEVICES: Final = (
    Column("device", lambda row: ", ".join(row["numbers"]), text=True),
    Column("kind", lambda row: row.get("kind"), text=True),
    Column("peaks", _peaks, text=True),
    Column("now", _clocks, text=True),
)
_SOURCES: Final = (
    Column("source", lambda row: row["name"], text=True),
    Column("kind", lambda row: row.get("kind"), text=True),
    Column(
        "state",
        lambda row: "down" if row.get("up") is False else "up" if row.get("up") else "nothing here",
        text=True,
    ),
    Column("why", lambda row: row.get("reason"), text=True),
)
